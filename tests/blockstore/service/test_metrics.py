"""Metrics: zeros from the start, requests as a store bills them, and what a month of them costs."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from starlette.applications import Starlette

from blockstore.bucket import open_bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.traffic.traffic import shared_traffic, total_traffic
from blockstore.clock import ManualClock
from blockstore.index.boundary import BoundaryCounts
from blockstore.service.billing import Billed, MonthlyCost, Prices
from blockstore.service.metrics import (
    BucketRequests,
    Source,
    boundary_totals,
    counter,
    gauge,
    histogram,
    metrics_route,
)
from blockstore.world import World
from tests.support.asking import asking

PRICES = Prices(write_per_1000=5.0, read_per_1000=1.0, delete_per_1000=0.5)


def text(registry: CollectorRegistry) -> str:
    return generate_latest(registry).decode()


def test_counters_and_histograms_with_known_labels_exist_with_zeros() -> None:
    registry = CollectorRegistry()
    counter(registry, "jobs", "Jobs.", {"outcome": ("done", "failed"), "kind": ("a",)})
    counter(registry, "plain", "Plain.")
    histogram(registry, "took", "Took.", (1, 2), {"kind": ("a",)})
    found = text(registry)
    for line in (
        'jobs_total{kind="a",outcome="failed"} 0.0',
        "plain_total 0.0",
        'took_count{kind="a"} 0.0',
    ):
        assert line in found.replace('outcome="failed",kind="a"', 'kind="a",outcome="failed"'), line


def test_a_source_is_read_when_it_is_scraped() -> None:
    registry, blocks = CollectorRegistry(), [1]
    Source(registry, lambda: [gauge("blocks", "Blocks.", ("table",), [(("t",), blocks[0])])])
    blocks[0] = 7
    assert 'blocks{table="t"} 7.0' in text(registry)


def test_every_verb_and_price_class_is_there_before_the_first_request() -> None:
    registry = CollectorRegistry()
    BucketRequests(registry, list, prices=PRICES, clock=ManualClock())
    found = text(registry)
    for line in (
        'blockstore_bucket_requests_total{verb="put_if_absent"} 0.0',
        'blockstore_bucket_bytes_total{verb="get"} 0.0',
        'blockstore_bucket_price_class_requests_total{price_class="delete"} 0.0',
        'blockstore_bucket_month_cost_estimate{price_class="write"} 0.0',
    ):
        assert line in found, line


def test_what_stores_in_a_network_did_is_there_from_the_start_and_counted() -> None:
    registry = CollectorRegistry()
    BucketRequests(registry, list, prices=PRICES, clock=ManualClock())
    names = ("requests", "retries", "retries_refused", "hedges", "hedges_won", "throttled")
    found = text(registry)
    for name in names:
        assert f"blockstore_store_{name}_total " in found
    assert "blockstore_store_rate_limit " in found
    before = total_traffic(0)
    traffic = shared_traffic("s3://metrics")
    traffic.turn(0)
    traffic.throttled(0)
    found = text(registry)
    assert f"blockstore_store_requests_total {before.requests + 1}.0" in found
    assert f"blockstore_store_throttled_total {before.throttled + 1}.0" in found


def test_requests_and_bytes_are_those_of_all_buckets() -> None:
    registry, clock = CollectorRegistry(), ManualClock()
    meters = [Billed(MemoryBucket(clock)) for _ in range(2)]
    BucketRequests(registry, lambda: meters, prices=PRICES, clock=clock)
    for meter in meters:
        meter.put("a", b"12345")
        meter.get("a")
        meter.delete(["a", "b"])
    found = text(registry)
    for line in (
        'blockstore_bucket_requests_total{verb="put"} 2.0',
        'blockstore_bucket_bytes_total{verb="get"} 10.0',
        'blockstore_bucket_price_class_requests_total{price_class="write"} 2.0',
        'blockstore_bucket_price_class_requests_total{price_class="delete"} 4.0',
        # Ten cents of writes in what counts as an hour, 720 hours a month.
        'blockstore_bucket_month_cost_estimate{price_class="write"} 7.2',
    ):
        assert line in found, line


def test_no_store_bills_the_requests_to_a_folder(tmp_path: Path) -> None:
    registry, clock = CollectorRegistry(), ManualClock()
    folder, store = (
        Billed(open_bucket(f"{tmp_path}/lake", World.manual())),
        Billed(MemoryBucket(clock)),
    )
    requests = BucketRequests(registry, lambda: [folder], prices=PRICES, clock=clock)
    folder.put("a", b"12345")
    assert requests.estimate() == {}, "there is nothing to show"
    found = text(registry)
    assert 'blockstore_bucket_requests_total{verb="put"} 1.0' in found
    assert 'blockstore_bucket_month_cost_estimate{price_class="write"} 0.0' in found
    both = BucketRequests(CollectorRegistry(), lambda: [folder, store], prices=PRICES, clock=clock)
    store.put("a", b"12345")
    assert both.estimate()["write"] == pytest.approx(3.6)


def test_what_was_asked_of_boundaries_is_reported() -> None:
    registry, counts = CollectorRegistry(), BoundaryCounts()
    Source(registry, lambda: boundary_totals("x_", ("table",), [(("t",), counts)]))
    assert 'x_boundary_refusals_total{table="t"} 0.0' in text(registry)
    counts.add(checks=3, refusals=1, advances=2, failed=1, seconds=0.5)
    for line in (
        'x_boundary_checks_total{table="t"} 3.0',
        'x_boundary_refusals_total{table="t"} 1.0',
        'x_boundary_advances_total{table="t"} 2.0',
        'x_boundary_failures_total{table="t"} 1.0',
        'x_boundary_seconds_total{table="t"} 0.5',
    ):
        assert line in text(registry), line


def test_a_listing_is_billed_by_the_page_and_a_large_object_by_the_part() -> None:
    meter = Billed(MemoryBucket(ManualClock()))
    for number in range(2001):
        meter.inner.put(f"k{number:05}", b"")
    assert len([*meter.list()]) == 2001
    assert meter.totals()["list"][0] == 3
    small = meter.writer("small")
    small.write(b"abc")
    small.close()
    assert meter.totals()["writer"] == (1, 3)
    large = meter.writer("large")
    for _ in range(5):
        large.write(bytes(8 << 20))
    large.close()
    assert meter.totals()["writer"] == (1 + 1 + 5 + 1, 3 + (40 << 20))


def test_the_estimate_follows_the_pace_of_the_last_day() -> None:
    clock = ManualClock()
    cost = MonthlyCost(PRICES, clock)
    requests = 0.0
    for _ in range(24 * 4):
        clock.advance(900)
        requests += 250
        estimate = cost.estimate({"read": requests})["read"]
    assert estimate == 1.0 * 720
    for _ in range(25 * 4):
        clock.advance(900)
        estimate = cost.estimate({"read": requests})["read"]
    assert estimate == 0


def test_the_endpoint_answers_in_the_text_format() -> None:
    registry = CollectorRegistry()
    counter(registry, "jobs", "Jobs.")
    with asking(Starlette(routes=[metrics_route(registry)])) as client:
        answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert "jobs_total 0.0" in answer.text
