"""Appends to a table on an S3 server with latency: by one process, by many, by threads on one
handle."""

from __future__ import annotations

from contextlib import ExitStack

from bench.case import Case, Figures, Metric, Task
from bench.cases.at_latency import MAIN, counts, delays, every_scale, keep, median, metrics, proxied
from bench.latency.session import Measured, Session
from bench.timing import percentile

__all__ = ["S3_APPEND", "S3_APPEND16", "S3_GROUP"]

WRITERS = ("floor-s3", "ours-s3", "lance-s3", "delta-s3")
WARM = 3


def measure_append(task: Task) -> Figures:
    """Each append alone: its time, and its requests."""
    rows, times = task.sizes["rows"], task.sizes["appends"]
    figures: dict[str, float] = {}
    with proxied() as proxy, Session.started(task.peer, task.directory, proxy) as session:
        figures["start_ms"] = session.start_ms
        session.do("create")
        session.do("append", times=WARM, rows=rows, seed=task.seed)
        done = WARM
        for delay in delays(task):
            proxy.set(delay_ms=delay)
            session.do("append", times=1, rows=rows, seed=task.seed)
            found = [
                session.do("append", times=1, rows=rows, seed=task.seed + number)
                for number in range(times)
            ]
            done += 1 + times
            figures[f"ms_{delay}"] = median([each.ms for each in found])
            figures |= counts(found)
            if delay == MAIN:
                keep("s3-append", task, found)
        session.close()
        session.do("count", expected=done * rows)
    return figures


def measure_append16(task: Task) -> Figures:
    """``processes`` append side by side, each for ``limit_s`` at most."""
    sizes = task.sizes
    figures: dict[str, float] = {}
    with proxied() as proxy, ExitStack() as stack:
        first = stack.enter_context(Session.started(task.peer, task.directory, proxy))
        first.do("create")
        others = [
            stack.enter_context(Session.started(task.peer, task.directory, proxy))
            for _ in range(sizes["processes"] - 1)
        ]
        sessions = [first, *others]
        for session in sessions:
            session.do("append", times=1, rows=sizes["rows"], seed=task.seed)
        acknowledged = len(sessions)
        for delay in delays(task):
            proxy.set(delay_ms=delay)
            proxy.reset()
            for number, session in enumerate(sessions):
                session.ask(
                    "append_until",
                    times=sizes["appends"],
                    rows=sizes["rows"],
                    seed=task.seed * 1_000 + number,
                    limit_s=sizes["limit_s"],
                )
            answers = [session.answer() for session in sessions]
            spans = [span for answer in answers for span in answer.seconds]
            if not spans:
                raise RuntimeError(f"{task.peer.name} acknowledged nothing")
            acknowledged += len(spans)
            wall = max(end for _, end in spans) - min(begin for begin, _ in spans)
            figures[f"per_s_{delay}"] = len(spans) / wall
            figures["p99_ms"] = 1_000 * percentile([end - begin for begin, end in spans], 0.99)
            # An answer's record is of all processes until then; the last one has them all.
            whole = Measured(
                seconds=[],
                cpu_s=sum(answer.cpu_s for answer in answers),
                record=answers[-1].record,
            )
            figures |= counts([whole], operations=len(spans))
            del figures["depth"]
        proxy.set(delay_ms=0)
        first.close()
        first.do("count", expected=acknowledged * sizes["rows"])
    return figures


def measure_group(task: Task) -> Figures:
    """One thread, then ``threads`` on the same handle."""
    sizes = task.sizes
    figures: dict[str, float] = {}
    threads, times, rows = sizes["threads"], sizes["times"], sizes["rows"]
    with proxied() as proxy, Session.started(task.peer, task.directory, proxy) as session:
        session.do("create")
        session.do("append", times=WARM, rows=rows, seed=task.seed)
        for delay in delays(task):
            proxy.set(delay_ms=delay)
            alone = session.do("append", times=sizes["alone"], rows=rows, seed=task.seed)
            together = session.do(
                "append_threads", threads=threads, times=times, rows=rows, seed=task.seed
            )
            one = sizes["alone"] / sum(alone.seconds)
            figures[f"per_s_{delay}"] = threads * times / sum(together.seconds)
            figures |= {"one_per_s": one, "ratio": figures[f"per_s_{delay}"] / one}
            figures |= counts([together], operations=threads * times)
    return figures


def _extra(name: str, unit: str, title: str, digits: int, *, higher: bool = False) -> Metric:
    return Metric(name=name, unit=unit, title=title, higher_is_better=higher, digits=digits)


S3_APPEND = Case(
    name="s3-append",
    sentence="append 1,000 rows, each a commit, to a table on an S3 server with latency",
    peers=WRITERS,
    metrics=metrics(_extra("start_ms", "ms", "start of the process", 0)),
    sizes=every_scale(
        {"appends": 15, "rows": 1_000}, {"appends": 9, "rows": 1_000}, {"appends": 2, "rows": 10}
    ),
    rounds=3,
    measure=measure_append,
    reference="lance-s3",
    store=True,
)
S3_APPEND16 = Case(
    name="s3-append16",
    sentence="appends of 1,000 rows by 16 processes to one table on an S3 server with latency",
    peers=WRITERS,
    metrics=metrics(
        _extra("p99_ms", "ms", "99th percentile", 0), unit="/s", title="commits", rate=True
    ),
    sizes=every_scale(
        {"processes": 16, "appends": 20, "rows": 1_000, "limit_s": 20},
        {"processes": 16, "appends": 8, "rows": 1_000, "limit_s": 15},
        {"processes": 2, "appends": 2, "rows": 10, "limit_s": 10},
    ),
    rounds=2,
    measure=measure_append16,
    reference="lance-s3",
    store=True,
)
S3_GROUP = Case(
    name="s3-group64",
    sentence="appends of 1,000 rows by 64 threads on one handle, on an S3 server with latency",
    peers=("ours-s3",),
    metrics=metrics(
        _extra("one_per_s", "/s", "one thread", 1, higher=True),
        _extra("ratio", "x", "against one thread", 1, higher=True),
        unit="/s",
        title="commits",
        rate=True,
    ),
    sizes=every_scale(
        {"threads": 64, "times": 4, "alone": 10, "rows": 1_000},
        {"threads": 64, "times": 2, "alone": 5, "rows": 1_000},
        {"threads": 4, "times": 1, "alone": 2, "rows": 10},
    ),
    rounds=3,
    measure=measure_group,
    reference="ours-s3",
    store=True,
)
