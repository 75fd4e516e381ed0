"""Queries over 20 files on an S3 server with latency, in a fresh process and again in it.

Cold is what a user has who starts a process: its libraries are imported (a figure of its own), its
caches are empty, and the query opens the table. A gateway runs before its first query comes. The
contestants without a table read the data files of ours, copied to a folder of their own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Sizes, Task
from bench.cases.at_latency import MAIN, counts, delays, every_scale, keep, median, metrics, proxied
from bench.latency.session import Measured, Session

__all__ = ["S3_GROUP_BY", "S3_POINT"]

POINT_ROWS = 1_000
MIB = 1 << 20
BARE = ("floor-s3", "polars-s3", "pyarrow-s3", "duckdb-s3")
TABLES = ("ours-s3", "ours-sql-s3", "ours-gateway-s3", "lance-s3", "delta-s3")
_Ask = Callable[[Session, dict[str, int]], Measured]


def prepare(task: Task) -> None:
    """``blocks`` appends of ``rows`` rows, whose ids follow one another."""
    handle = task.peer.create(task.directory, inputs.SCHEMA, ["id"])
    handle.ingest(inputs.ordered(task.sizes["blocks"], task.sizes["rows"], task.seed))
    handle.close()
    if task.peer.family == "ours":
        from bench.peers.s3 import place

        place.copy_bare(task.directory)


def _measure(name: str, verb: str, draw: Callable[[random.Random, Sizes], dict[str, int]]) -> Any:
    def measure(task: Task) -> Figures:
        """Cold, the same again, and with other literals."""
        dice = random.Random(task.seed)
        figures: dict[str, float] = {}
        with proxied() as proxy:
            for delay in delays(task):
                proxy.set(delay_ms=delay)
                cold: list[Measured] = []
                again: list[Measured] = []
                warm: list[Measured] = []
                starts = []
                for _ in range(task.sizes["repeats"]):
                    with Session.started(task.peer, task.directory, proxy) as session:
                        starts.append(session.start_ms)
                        if task.peer.resident:
                            session.do("open")
                        asked = draw(dice, task.sizes)
                        cold.append(session.do(verb, **asked))
                        again.append(session.do(verb, **asked))
                        warm += [session.do(verb, **draw(dice, task.sizes)) for _ in range(2)]
                figures[f"ms_{delay}"] = median([each.ms for each in cold])
                figures["start_ms"] = median(starts)
                figures |= _beside("again", again) | _beside("warm", warm) | counts(cold)
                if delay == MAIN:
                    keep(name, task, cold)
        return figures

    return measure


def _beside(name: str, found: list[Measured]) -> dict[str, float]:
    return {
        f"{name}_ms": median([each.ms for each in found]),
        f"{name}_requests": median([each.record.requests for each in found]),
        f"{name}_depth": median([each.record.depth for each in found]),
        f"{name}_mib": median([each.record.down / MIB for each in found]),
    }


def _point(dice: random.Random, sizes: Sizes) -> dict[str, int]:
    return {"low": dice.randrange(_total(sizes) - POINT_ROWS), "rows": POINT_ROWS}


def _group_by(dice: random.Random, sizes: Sizes) -> dict[str, int]:
    return {"shift": dice.randrange(1_000_000), "expected": _total(sizes)}


def _total(sizes: Sizes) -> int:
    return sizes["blocks"] * sizes["rows"]


def _case(name: str, verb: str, draw: Any, sentence: str) -> Case:
    beside = (
        ("again_ms", "ms", "the same again", 0),
        ("again_requests", "", "its requests", 0),
        ("again_depth", "", "in turn", 0),
        ("again_mib", "MiB", "it received", 2),
        ("warm_ms", "ms", "others again", 0),
        ("warm_requests", "", "their requests", 0),
        ("warm_depth", "", "in turn", 0),
        ("warm_mib", "MiB", "they received", 2),
        ("start_ms", "ms", "start of the process", 0),
    )
    own = tuple(
        Metric(name=metric, unit=unit, title=title, higher_is_better=False, digits=digits)
        for metric, unit, title, digits in beside
    )
    return Case(
        name=name,
        sentence=f"{sentence}, in 20 files on an S3 server with latency, in a fresh process",
        peers=("floor-s3", *TABLES, "polars-s3", "pyarrow-s3", "duckdb-s3"),
        metrics=metrics(*own),
        sizes=every_scale(
            {"blocks": 20, "rows": 500_000, "repeats": 3},
            {"blocks": 20, "rows": 50_000, "repeats": 1},
            {"blocks": 3, "rows": 2_000, "repeats": 1},
        ),
        rounds=2,
        prepare=Prepare(name="s3-events", run=prepare),
        measure=_measure(name, verb, draw),
        borrows=dict.fromkeys((*BARE, "ours-sql-s3", "ours-gateway-s3"), "ours-s3"),
        reference="polars-s3",
        store=True,
    )


S3_POINT = _case("s3-point", "point", _point, "fetch 1,000 neighboring rows of 10 M, all columns")
S3_GROUP_BY = _case(
    "s3-groupby", "group_by", _group_by, "count and sum by a column of 10 values over 10 M rows"
)
