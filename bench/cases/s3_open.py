"""Opening a table on an S3 server with latency, and looking for new commits."""

from __future__ import annotations

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Task
from bench.cases.at_latency import MAIN, counts, delays, every_scale, keep, median, metrics, proxied
from bench.latency.session import Session

__all__ = ["S3_OPEN", "S3_POLL"]

READERS = ("floor-s3", "ours-s3", "lance-s3", "delta-s3")


def prepare(task: Task) -> None:
    """``commits`` appends of ``rows`` rows."""
    handle = task.peer.create(task.directory, inputs.SCHEMA, [])
    for table in inputs.small(task.sizes["commits"], task.sizes["rows"], task.seed):
        handle.append(table)
    handle.close()


def measure_open(task: Task) -> Figures:
    """Open and count in a fresh process; and again in it, by another handle."""
    expected = task.sizes["commits"] * task.sizes["rows"]
    figures: dict[str, float] = {}
    with proxied() as proxy:
        for delay in delays(task):
            proxy.set(delay_ms=delay)
            first, again, starts = [], [], []
            for _ in range(task.sizes["repeats"]):
                with Session.started(task.peer, task.directory, proxy) as session:
                    starts.append(session.start_ms)
                    first.append(session.do("count", expected=expected))
                    session.close()
                    again.append(session.do("count", expected=expected))
            figures[f"ms_{delay}"] = median([each.ms for each in first])
            figures["again_ms"] = median([each.ms for each in again])
            figures["again_requests"] = median([each.record.requests for each in again])
            figures["start_ms"] = median(starts)
            figures |= counts(first)
            if delay == MAIN:
                keep("s3-open", task, first)
    return figures


def measure_poll(task: Task) -> Figures:
    """Looks with nothing new."""
    figures: dict[str, float] = {}
    with proxied() as proxy, Session.started(task.peer, task.directory, proxy) as session:
        session.do("open")
        session.do("poll", times=2)
        for delay in delays(task):
            proxy.set(delay_ms=delay)
            found = [session.do("poll", times=1) for _ in range(task.sizes["repeats"] * 5)]
            figures[f"ms_{delay}"] = median([each.ms for each in found])
            figures |= counts(found)
    return figures


AGAIN = (
    Metric(name="again_ms", unit="ms", title="again, warm", higher_is_better=False, digits=0),
    Metric(
        name="again_requests", unit="", title="requests, warm", higher_is_better=False, digits=0
    ),
    Metric(
        name="start_ms", unit="ms", title="start of the process", higher_is_better=False, digits=0
    ),
)
SIZES = every_scale(
    {"commits": 24, "rows": 1_000, "repeats": 5},
    {"commits": 24, "rows": 1_000, "repeats": 3},
    {"commits": 3, "rows": 10, "repeats": 1},
)
PREPARE = Prepare(name="s3-commits", run=prepare)
S3_OPEN = Case(
    name="s3-open",
    sentence="open a table of 24 commits on an S3 server with latency and count its rows, in a "
    "fresh process",
    peers=READERS,
    metrics=metrics(*AGAIN),
    sizes=SIZES,
    rounds=3,
    prepare=PREPARE,
    measure=measure_open,
    reference="lance-s3",
    store=True,
)
S3_POLL = Case(
    name="s3-poll",
    sentence="look for new commits of a table on an S3 server with latency; there are none",
    peers=READERS,
    metrics=metrics(),
    sizes=SIZES,
    rounds=3,
    prepare=PREPARE,
    measure=measure_poll,
    reference="lance-s3",
    store=True,
)
