"""What the cases on an S3 server with latency share: the delays, the proxy, and the figures.

Every case has the time at each delay; requests, depth, bytes and dollars are those at ``MAIN``.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.case import Metric, Scale, Task
from bench.latency.proxy import Proxy
from bench.latency.record import Record
from bench.latency.session import Measured

__all__ = [
    "DELAYS",
    "DELAYS_VARIABLE",
    "MAIN",
    "TIMELINES_VARIABLE",
    "counts",
    "delays",
    "every_scale",
    "keep",
    "median",
    "metrics",
    "proxied",
]

DELAYS = (0, 5, 25, 100)
MAIN = 25
DELAYS_VARIABLE = "BENCH_DELAYS"
"""Delays in ms between commas, instead of the case's own."""
TIMELINES_VARIABLE = "BENCH_TIMELINES"
"""The folder for the records of single runs, from which timelines are drawn."""
MIB = 1 << 20
COUNTS = (
    ("requests", "", "requests", 0),
    ("depth", "", "depth", 0),
    ("down_mib", "MiB", "received", 2),
    ("up_mib", "MiB", "sent", 2),
    ("dollars", "$", "per million", 2),
    ("cpu_ms", "ms", "CPU", 0),
)


def delays(task: Task) -> tuple[int, ...]:
    """The delays to measure at, the main one last: its record is the one that is kept."""
    asked = os.environ.get(DELAYS_VARIABLE)
    chosen = [int(each) for each in asked.split(",")] if asked else list(DELAYS)
    if not asked and not task.sizes["every_delay"]:
        chosen = [MAIN]
    return tuple(sorted(chosen, key=lambda delay: (delay == MAIN, delay)))


def every_scale(
    full: Mapping[str, int], quick: Mapping[str, int], tiny: Mapping[str, int]
) -> dict[Scale, Mapping[str, int]]:
    """Sizes at each scale; a full run measures at every delay."""
    return {
        Scale.FULL: {**full, "every_delay": 1},
        Scale.QUICK: {**quick, "every_delay": 0},
        Scale.TINY: {**tiny, "every_delay": 0},
    }


def metrics(
    *own: Metric, unit: str = "ms", title: str = "", rate: bool = False
) -> tuple[Metric, ...]:
    """The main delay first, the others, what is counted, and a case's own figures."""
    name = "per_s" if rate else "ms"
    ordered = sorted(DELAYS, key=lambda delay: (delay != MAIN, delay))
    times = tuple(
        Metric(
            name=f"{name}_{delay}",
            unit=unit,
            title=f"{title} at {delay} ms".strip(),
            higher_is_better=rate,
            digits=1 if rate else 0,
        )
        for delay in ordered
    )
    counted = tuple(
        Metric(name=each, unit=unit, title=title, higher_is_better=False, digits=digits)
        for each, unit, title, digits in COUNTS
    )
    return (*times, *counted, *own)


@contextmanager
def proxied() -> Iterator[Proxy]:
    """A proxy in front of the server that the environment names, without delay at first."""
    with Proxy.between(os.environ["AWS_ENDPOINT_URL"], delay_ms=0) as proxy:
        yield proxy


def counts(found: Sequence[Measured], *, operations: int = 1) -> dict[str, float]:
    """What was counted, as medians for one of ``operations`` that each of ``found`` did."""
    records = [each.record for each in found]
    return {
        "requests": median(record.requests / operations for record in records),
        "depth": median(record.depth / operations for record in records),
        "down_mib": median(record.down / MIB / operations for record in records),
        "up_mib": median(record.up / MIB / operations for record in records),
        "dollars": median(record.dollars * 1e6 / operations for record in records),
        "cpu_ms": median(each.cpu_s * 1_000 / operations for each in found),
    }


def median(values: Iterator[float] | Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)


def keep(case: str, task: Task, found: Sequence[Measured]) -> None:
    """Keep the record of the run whose time is in the middle, for the timelines."""
    folder = os.environ.get(TIMELINES_VARIABLE)
    if folder and found:
        middle = sorted(found, key=lambda each: each.ms)[len(found) // 2]
        Path(folder).mkdir(parents=True, exist_ok=True)
        _save(Path(folder) / f"{case}-{task.peer.name}.json", middle.record, middle.ms)


def _save(path: Path, record: Record, ms: float) -> None:
    path.write_text(json.dumps({"ms": ms, "record": record.plain()}))
