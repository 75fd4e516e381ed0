"""The depth is the longest chain of round trips, and a request has the price of its class."""

from __future__ import annotations

import pytest

from bench.latency.prices import Kind, dollars, kind
from bench.latency.record import Exchange, Record


def exchange(
    begin: float, end: float, method: str = "GET", go_ahead: float | None = None
) -> Exchange:
    return Exchange(
        begin=begin, end=end, method=method, target="/b/k", status=200, up=1, down=2,
        go_ahead=go_ahead,
    )  # fmt: skip


def record(*exchanges: Exchange) -> Record:
    return Record(exchanges=exchanges, connections=1, unfinished=0)


@pytest.mark.parametrize(
    ("times", "depth"),
    [
        ([], 0),
        ([(0, 1)], 1),
        ([(0, 1), (1, 2), (2, 3)], 3),
        ([(0, 3), (0, 1), (1, 2), (2, 3)], 3),
        ([(0, 2), (1, 3), (2, 4), (3, 5)], 2),
        ([(0, 10), (1, 2), (3, 4), (5, 6), (11, 12)], 4),
        ([(0, 1), (0.9, 5), (0.9, 2), (3, 4)], 2),
    ],
)
def test_the_depth_is_the_longest_chain(times: list[tuple[float, float]], depth: int) -> None:
    assert record(*(exchange(begin, end) for begin, end in reversed(times))).depth == depth


def test_a_go_ahead_is_a_round_trip_of_its_own() -> None:
    assert record(exchange(0, 4, "PUT", go_ahead=2)).depth == 2
    assert record(exchange(0, 4, "PUT", go_ahead=2), exchange(1, 3)).depth == 2
    assert record(exchange(0, 4, "PUT", go_ahead=2), exchange(4, 5)).depth == 3


def test_a_record_survives_its_way_as_json() -> None:
    found = record(exchange(0, 1), exchange(1, 3, "PUT", go_ahead=2))
    assert Record.of(found.plain()) == found
    assert (found.requests, found.up, found.down) == (2, 2, 4)
    assert found.dollars == pytest.approx(0.0000004 + 0.000005)


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/bucket/key", Kind.READ),
        ("HEAD", "/bucket/key", Kind.READ),
        ("HEAD", "/bucket", Kind.READ),
        ("GET", "/bucket?list-type=2&prefix=a%2Fb", Kind.WRITE),
        ("GET", "/bucket/?list-type=2", Kind.WRITE),
        ("GET", "/bucket/key?prefix=x", Kind.READ),
        ("GET", "/bucket?location", Kind.READ),
        ("PUT", "/bucket/key", Kind.WRITE),
        ("POST", "/bucket/key?uploads", Kind.WRITE),
        ("POST", "/bucket?delete", Kind.FREE),
        ("DELETE", "/bucket/key", Kind.FREE),
    ],
)
def test_a_request_has_the_price_of_its_class(method: str, target: str, expected: Kind) -> None:
    assert kind(method, target) is expected


def test_a_million_reads_cost_forty_cents_and_a_million_writes_five_dollars() -> None:
    assert dollars("GET", "/b/k") * 1e6 == pytest.approx(0.4)
    assert dollars("PUT", "/b/k") * 1e6 == pytest.approx(5)
