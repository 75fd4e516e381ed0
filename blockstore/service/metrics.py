"""Prometheus metrics of a process, in a registry that is passed in; every series exists from the
start.

Rules:
- prometheus-client's global registry is not used, so one test can have the metrics of two
  processes.
- A series with known labels exists with zero before its first event: an alert on an increase then
  notices the first one, and a dashboard shows 0 instead of a gap.
- Values that are kept elsewhere are read at each scrape (``Source``); they are not kept twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from blockstore.bucket.traffic.traffic import TrafficCounts, total_traffic
from blockstore.clock import Clock
from blockstore.index.boundary import BoundaryCounts
from blockstore.service.billing import CLASS_OF, Billed, MonthlyCost, Prices

Labels = Mapping[str, Sequence[str]]
"""The known values of each label."""


def counter(
    registry: CollectorRegistry, name: str, text: str, labels: Labels | None = None
) -> Counter:
    """A counter; each combination of the labels' known values exists with zero."""
    made = Counter(name, text, tuple(labels or {}), registry=registry)
    for values in product(*(labels or {}).values()):
        if values:
            made.labels(*values)
    return made


def histogram(
    registry: CollectorRegistry,
    name: str,
    text: str,
    buckets: Sequence[float],
    labels: Labels | None = None,
) -> Histogram:
    """A histogram; each combination of the labels' known values exists with zero."""
    made = Histogram(name, text, tuple(labels or {}), buckets=buckets, registry=registry)
    for values in product(*(labels or {}).values()):
        if values:
            made.labels(*values)
    return made


Values = Iterable[tuple[Sequence[str], float]]
"""For each series, its label values and its value."""


def gauge(name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
    """A gauge with its present values, for a ``Source``."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for of, value in values:
        family.add_metric(list(of), value)
    return family


def total(name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
    """A counter that is kept elsewhere, with its present values, for a ``Source``. ``name`` does
    not include ``_total``."""
    family = CounterMetricFamily(name, text, labels=labels)
    for of, value in values:
        family.add_metric(list(of), value)
    return family


def boundary_totals(
    prefix: str, labels: Sequence[str], counts: Sequence[tuple[Sequence[str], BoundaryCounts]]
) -> Iterator[Metric]:
    """The requests to boundaries: entries checked (step 5 of a commit), refusals, advances, and the
    time that they took."""

    def each(name: str, text: str, value: Callable[[BoundaryCounts], float]) -> Metric:
        return total(
            f"{prefix}boundary_{name}", text, labels, [(of, value(one)) for of, one in counts]
        )

    yield each(
        "checks", "Entries written that were checked against the boundary.", lambda one: one.checks
    )
    yield each("refusals", "Checks that refused a stale write.", lambda one: one.refusals)
    yield each("advances", "Advances of the boundary.", lambda one: one.advances)
    yield each(
        "failures", "Advances of the boundary that ended in an error.", lambda one: one.failed
    )
    yield each("seconds", "Seconds spent in checks and advances.", lambda one: one.seconds)


class Source(Collector):
    """Metrics that are computed at each scrape."""

    def __init__(
        self, registry: CollectorRegistry, metrics: Callable[[], Iterable[Metric]]
    ) -> None:
        self._metrics = metrics
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registering does not compute the values."""
        return ()

    def collect(self) -> Iterable[Metric]:
        return self._metrics()


class BucketRequests:
    """Requests and bytes by verb, requests by price class, the estimated cost of a month, and what
    this process sent again, sent twice or held back."""

    def __init__(
        self,
        registry: CollectorRegistry,
        meters: Callable[[], Iterable[Billed]],
        *,
        prices: Prices,
        clock: Clock,
    ) -> None:
        self._meters = meters
        self._clock = clock
        self._cost = MonthlyCost(prices, clock)
        Source(registry, self._metrics)

    def estimate(self) -> dict[str, float]:
        """The cost of a month at the rate of the last day, by price class; empty for folders, which
        are not billed."""
        billed = [meter for meter in self._meters() if meter.costs]
        return self._estimate(billed) if billed else {}

    def _estimate(self, billed: Iterable[Billed]) -> dict[str, float]:
        return self._cost.estimate(_classes(_counted(billed)[0]))

    def _metrics(self) -> Iterator[Metric]:
        yield from _traffic(total_traffic(self._clock.monotonic_s()))
        meters = list(self._meters())
        requests, sizes = _counted(meters)
        classes = _classes(requests)
        yield total(
            "blockstore_bucket_requests",
            "Requests sent to the bucket, by the verb of the bucket's interface.",
            ("verb",),
            (((verb,), value) for verb, value in requests.items()),
        )
        yield total(
            "blockstore_bucket_bytes",
            "Bytes read from and written to the bucket, by verb.",
            ("verb",),
            (((verb,), value) for verb, value in sizes.items()),
        )
        yield total(
            "blockstore_bucket_price_class_requests",
            "Requests by the class in which stores bill them: write, read, delete.",
            ("price_class",),
            (((name,), value) for name, value in classes.items()),
        )
        yield gauge(
            "blockstore_bucket_month_cost_estimate",
            "The cost of a month of requests at the rate of the last day, by price class, at the "
            "configured prices; requests to a folder are free.",
            ("price_class",),
            (
                ((name,), value)
                for name, value in self._estimate(one for one in meters if one.costs).items()
            ),
        )


def _traffic(counts: TrafficCounts) -> Iterator[Metric]:
    """What the requests to stores in a network share."""

    def each(name: str, text: str, value: int) -> Metric:
        return total(f"blockstore_store_{name}", text, (), [((), value)])

    yield each(
        "requests", "Requests to stores in a network, with those sent again.", counts.requests
    )
    yield each("retries", "Requests that were sent again after an error.", counts.retries)
    yield each(
        "retries_refused",
        "Errors that were raised because the budget of retries was spent.",
        counts.retries_refused,
    )
    yield each("hedges", "Late reads that were sent a second time.", counts.hedges)
    yield each("hedges_won", "Of these, those that responded first.", counts.hedges_won)
    yield each(
        "throttled", "Responses by which a store limited the rate of requests.", counts.throttled
    )
    yield gauge(
        "blockstore_store_rate_limit",
        "Requests a second that this process allows itself since a store limited them; 0 without a "
        "limit. Of several buckets, the lowest.",
        (),
        [((), counts.rate)],
    )


def _counted(meters: Iterable[Billed]) -> tuple[dict[str, int], dict[str, int]]:
    """Requests and bytes by verb."""
    requests, sizes = dict.fromkeys(CLASS_OF, 0), dict.fromkeys(CLASS_OF, 0)
    for meter in meters:
        for method, (count, size) in meter.totals().items():
            requests[method] += count
            sizes[method] += size
    return requests, sizes


def _classes(requests: Mapping[str, int]) -> dict[str, int]:
    classes = dict.fromkeys(sorted(set(CLASS_OF.values())), 0)
    for method, count in requests.items():
        classes[CLASS_OF[method]] += count
    return classes


def metrics_route(registry: CollectorRegistry, path: str = "/metrics") -> Route:
    """The endpoint that Prometheus scrapes."""

    def answer(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return Route(path, answer, methods=["GET"])
