"""When a request is late."""

from __future__ import annotations

import pytest

from blockstore.bucket.traffic.latency import Latency, name_class, size_class


def known(*seconds: float) -> Latency:
    latency = Latency()
    for one in seconds:
        latency.note(one)
    return latency


def test_a_request_is_late_after_nearly_all_of_its_kind() -> None:
    latency = known(*[0.025] * 96, *[2.0] * 4)
    assert latency.late_s == pytest.approx(0.025)
    latency = known(*[0.025] * 90, *[0.5] * 10)
    assert latency.late_s == pytest.approx(0.5)


def test_with_few_samples_nothing_is_late() -> None:
    assert known(*[0.025] * 39).late_s is None


def test_nothing_is_late_before_ten_milliseconds() -> None:
    assert known(*[0.001] * 100).late_s == 0.010


def test_what_a_kind_takes_now_replaces_what_it_took() -> None:
    latency = known(*[0.025] * 500)
    for _ in range(200):
        latency.note(0.1)
    assert latency.late_s == pytest.approx(0.1)


def test_ranges_of_like_size_are_one_kind() -> None:
    assert size_class(1) == size_class(65_536)
    assert len({size_class(1 << at) for at in range(16, 26, 2)}) == 5


def test_complete_objects_are_one_kind_by_their_ending() -> None:
    assert name_class("a/1.json") == name_class("b/2.json") != name_class("b/2.parquet")
    assert name_class("a.b/long-name-without-ending") == name_class("another-name-without")
