"""The gateway's metrics: queries, requests, the freshness of tables, cache, jobs and the bucket's
bill."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from blockstore.clock import Clock
from blockstore.index.boundary import BoundaryCounts
from blockstore.reader.cache import ChunkCache
from blockstore.reader.jobs.record import Kind
from blockstore.reader.query import Engine
from blockstore.reader.tables import Tables, TableState
from blockstore.service.billing import Billed, Prices
from blockstore.service.connections import ConnectionCounts
from blockstore.service.metrics import (
    BucketRequests,
    Source,
    boundary_totals,
    counter,
    gauge,
    histogram,
    total,
)

_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_EVENTS = ("claimed", "taken_over", "done", "failed", "cancelled")
_FLIGHT = ("ok", "refused", "failed", "cancelled")
_COMMIT_ENDS = {200: "done", 409: "conflict", 504: "unknown"}
_COMMITS = ("done", "conflict", "unknown", "refused", "failed")
_CLASSES = ("2xx", "3xx", "4xx", "5xx", "aborted")

PASSED = ("answered", "unreachable", "declined", "queue")
"""What comes of asking another gateway."""

DOORS = ("http", "flight", "postgres")
"""The doors that clients connect to."""

_OWN_SERIES = 200
"""Tables with series of their own."""


class GatewayMetrics:
    """The metrics of one gateway, in its registry."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        tables: Tables,
        engine: Engine,
        cache: ChunkCache,
        ready: Callable[[], bool],
        tokens_current: Callable[[], bool],
        audited: Callable[[], bool],
        peers: Callable[[], tuple[int, int]],
        jobs_running: Callable[[], int],
        boundary: Callable[[], BoundaryCounts],
        meters: Sequence[Billed],
        prices: Prices,
        clock: Clock,
    ) -> None:
        """What is callable is called for each scrape; ``meters`` may grow."""
        self._tables = tables
        self._engine = engine
        self._cache = cache
        self._ready = ready
        self._tokens_current = tokens_current
        self._audited = audited
        self._peers = peers
        self._jobs_running = jobs_running
        self._boundary = boundary
        self._doors: dict[str, Callable[[], ConnectionCounts]] = {}
        self._requests = counter(
            registry,
            "blockstore_http_requests",
            "Requests, by class of status.",
            {"status": _CLASSES},
        )
        self._seconds = histogram(
            registry,
            "blockstore_http_request_seconds",
            "From the head of a request to the end of its response.",
            _SECONDS,
        )
        self._flight = counter(
            registry,
            "blockstore_flight_calls",
            "Calls of Flight SQL, by how they ended.",
            {"status": _FLIGHT},
        )
        self._events = counter(
            registry,
            "blockstore_job_events",
            "Events of jobs at this gateway.",
            {"kind": tuple(Kind), "event": _EVENTS},
        )
        self._reports = counter(
            registry,
            "blockstore_iceberg_reports",
            "Reports of scans that engines sent to the Iceberg catalog.",
            {},
        )
        self._commits = counter(
            registry,
            "blockstore_iceberg_commits",
            "Commits that engines sent to the Iceberg catalog, by how they ended; conflict where "
            "the table had changed, so that the engine loads it and tries again.",
            {"outcome": _COMMITS},
        )
        self._passed = counter(
            registry,
            "blockstore_queries_passed_on",
            "Queries for which another gateway of the group was asked: answered there; or answered "
            "here, because it did not respond, declined, or had a queue.",
            {"outcome": PASSED},
        )
        Source(registry, self._metrics)
        BucketRequests(
            registry,
            lambda: list(meters),
            prices=prices,
            clock=clock,
        )

    def of_door(self, door: str, counts: Callable[[], ConnectionCounts]) -> None:
        """A door is open; ``counts`` is called for each scrape."""
        assert door in DOORS, door
        self._doors[door] = counts

    def of_request(self, method: str, status: int, seconds: float) -> None:
        """A request has ended; its status is 0 if no response was sent."""
        self._requests.labels(f"{status // 100}xx" if status else "aborted").inc()
        self._seconds.observe(seconds)

    def of_flight_call(self, status: str) -> None:
        """A call of Flight SQL has ended."""
        self._flight.labels(status).inc()

    def of_passed(self, outcome: str) -> None:
        """Another gateway was asked for a query."""
        self._passed.labels(outcome).inc()

    def of_job(self, kind: str, event: str) -> None:
        """An event of a job."""
        self._events.labels(str(kind), str(event)).inc()

    def of_iceberg_report(self) -> None:
        """An engine has reported a scan."""
        self._reports.inc()

    def of_iceberg_commit(self, status: int) -> None:
        """A commit of an engine has ended with this status."""
        outcome = _COMMIT_ENDS.get(status) or ("failed" if status >= 500 else "refused")
        self._commits.labels(outcome).inc()

    def _metrics(self) -> Iterable[Metric]:
        states = self._tables.states()
        views = self._tables.last_asked(_OWN_SERIES)
        yield gauge(
            "blockstore_table_staleness_seconds",
            f"Seconds since the table was last polled successfully; of the {_OWN_SERIES} tables "
            "that were asked for last.",
            ("table",),
            (((view.name,), view.staleness_s) for view in views if view.staleness_s is not None),
        )
        yield gauge(
            "blockstore_table_version",
            f"The version that queries read; of the {_OWN_SERIES} tables that were asked for last.",
            ("table",),
            (((view.name,), view.version) for view in views if view.version is not None),
        )
        yield gauge(
            "blockstore_tables",
            "Tables, by state; loading where nothing is known of them, as before the first query.",
            ("state",),
            (((str(state),), states[state]) for state in TableState),
        )
        yield gauge(
            "blockstore_tables_polled",
            "Tables that are polled, because a query asked for them lately.",
            (),
            [((), self._tables.polled())],
        )
        yield gauge(
            "blockstore_ready",
            "Whether queries can be answered: 1 or 0.",
            (),
            [((), self._ready())],
        )
        yield gauge(
            "blockstore_tokens_current",
            "Whether the tokens are those of the configuration as it is now: 1, or 0 if it has "
            "changed and cannot be used.",
            (),
            [((), self._tokens_current())],
        )
        yield gauge(
            "blockstore_audit_written",
            "Whether the audit log can be written, or there is none: 1 or 0.",
            (),
            [((), self._audited())],
        )
        queries = self._engine.counts
        yield total("blockstore_queries", "Queries started.", (), [((), queries.queries)])
        yield total("blockstore_query_failures", "Queries that failed.", (), [((), queries.failed)])
        yield total(
            "blockstore_queries_read_again",
            "Queries that read more columns of a remote table than was expected of them, and were "
            "run again over complete chunks.",
            (),
            [((), queries.incomplete)],
        )
        yield gauge(
            "blockstore_queries_running", "Running queries.", (), [((), self._engine.running())]
        )
        yield gauge(
            "blockstore_queries_waiting", "Waiting queries.", (), [((), self._engine.waiting())]
        )
        yield from self._of_doors()
        polls = self._tables.counts
        yield total("blockstore_polls", "Polls of tables.", (), [((), polls.polls)])
        yield total(
            "blockstore_poll_failures", "Polls of tables that failed.", (), [((), polls.failures)]
        )
        ready, left_out = self._peers()
        yield gauge(
            "blockstore_peers",
            "The other gateways of the group: ready, or left out because they did not respond.",
            ("state",),
            [(("ready",), ready), (("left_out",), left_out)],
        )
        yield gauge(
            "blockstore_jobs_running",
            "Jobs that this gateway runs.",
            (),
            [((), self._jobs_running())],
        )
        yield from boundary_totals("blockstore_", (), [((), self._boundary())])
        yield from self._of_cache()

    def _of_doors(self) -> Iterable[Metric]:
        counts = {
            door: self._doors[door]() if door in self._doors else ConnectionCounts()
            for door in DOORS
        }
        yield gauge(
            "blockstore_connections",
            "Connections of clients, by door.",
            ("door",),
            [((door,), one.used) for door, one in counts.items()],
        )
        yield gauge(
            "blockstore_connections_limit",
            "So many connections a door takes; 0 for a door that is closed.",
            ("door",),
            [((door,), one.limit) for door, one in counts.items()],
        )
        yield total(
            "blockstore_connections_refused",
            "Connections that a door refused because of its limit; Flight SQL accepts them, and "
            "shuts down those that were idle longest.",
            ("door",),
            [((door,), one.refused) for door, one in counts.items()],
        )

    def _of_cache(self) -> Iterable[Metric]:
        cache, counts = self._cache, self._cache.counts
        yield gauge(
            "blockstore_cache_used_bytes",
            "Size of what is cached of chunks on disk.",
            (),
            [((), cache.bytes_used())],
        )
        yield total(
            "blockstore_cache_chunks",
            "Chunks of remote stores that queries needed: what was needed of them was found in the "
            "cache, or something was downloaded.",
            ("result",),
            [(("hit",), counts.hits), (("miss",), counts.misses)],
        )
        yield total(
            "blockstore_cache_bytes",
            "Bytes of remote stores that queries needed, and those that were downloaded.",
            ("what",),
            [(("asked",), counts.bytes_served), (("fetched",), counts.bytes_fetched)],
        )
        yield total(
            "blockstore_cache_evicted",
            "Chunks that were evicted for others.",
            (),
            [((), counts.evicted)],
        )
