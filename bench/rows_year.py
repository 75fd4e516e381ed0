"""A year of daily updates to a table with a key, with the compactor at work: what the table weighs,
how many rows a query reads for each that it sees, and how long it takes, day by day.

The clock is simulated: it moves by a day, and a job moves it no further. Run it with
``python -m bench.rows_year OUT``; ``OUT`` gets ``rows-year.json`` and ``rows-year.svg``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path

import numpy as np
import pyarrow as pa

from blockstore.bucket.local import LocalBucket
from blockstore.clock import ManualClock
from blockstore.compactor.by_hand import clean_once
from blockstore.compactor.plan.observe import observe
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.format.definition import Definition
from blockstore.ids import Ids
from blockstore.index import log
from blockstore.table import Table
from blockstore.world import Threads, World

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.int32()), ("value", pa.float64())])
_KINDS = 100
_AT_ONCE = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The table at the end of a day, its merges done."""

    day: int
    blocks: int
    live_mib: float
    stored_mib: float
    """With blocks that wait for their removal, and the index."""
    written_mib: float
    """By the compactor, this day."""
    amplification: float
    upsert_ms: float
    query_ms: float
    """A group-by over all rows, warm; the least of three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What is simulated."""

    rows: int = 5_000_000
    changes: int = 10_000
    days: int = 365


def year(size: Size, folder: Path, seed: int = 1) -> list[Day]:
    """Simulate it in a folder. Raises ValueError if the table's sum is ever wrong."""
    clock = ManualClock()
    world = World(clock=clock, ids=Ids.seeded(clock, seed), pool=Threads(8))
    bucket = LocalBucket(folder, clock, durable=False)
    log.create(bucket, world, Definition.create(SCHEMA, key=["id"], sort_by=["id"]))
    table = Table.open_bucket(bucket, world)
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 1_000, size.rows).astype(np.float64)
    for first in range(0, size.rows, _AT_ONCE):
        ids = np.arange(first, min(first + _AT_ONCE, size.rows))
        table.upsert(_rows(ids, values[ids]))
    settings = Settings()
    found = [_day(0, table, settings, 0.0, values)]
    for day in range(1, size.days + 1):
        clock.advance(86_400)
        ids = rng.choice(size.rows, size.changes, replace=False)
        values[ids] = rng.integers(0, 1_000, len(ids))
        began = time.perf_counter()
        table.upsert(_rows(ids, values[ids]))
        found.append(_day(day, table, settings, time.perf_counter() - began, values))
    return found


def _rows(ids: np.ndarray, values: np.ndarray) -> pa.Table:
    kinds = (ids % _KINDS).astype(np.int32)
    return pa.table({"id": ids, "kind": kinds, "value": values}, SCHEMA)


def _day(day: int, table: Table, settings: Settings, took_s: float, values: np.ndarray) -> Day:
    before = {block.meta.ulid for block in table.snapshot().snapshot.blocks}
    compact_once(table, settings)
    clean_once(table)
    seen = observe(table)
    metas = [one.meta for one in seen.inputs.values()]
    seconds = min(_query(table, values) for _ in range(3))
    return Day(
        day=day,
        blocks=len(metas),
        live_mib=_mib(sum(meta.bytes for meta in metas)),
        stored_mib=_mib(sum(info.size for info in table.bucket.list())),
        written_mib=_mib(
            sum(meta.bytes for meta in metas if meta.level > 1 and meta.ulid not in before)
        ),
        amplification=round(seen.read_amplification, 4),
        upsert_ms=round(took_s * 1000, 1),
        query_ms=round(seconds * 1000, 1),
    )


def _query(table: Table, values: np.ndarray) -> float:
    began = time.perf_counter()
    rows = table.snapshot().scan(columns=["kind", "value"]).to_table()
    groups = rows.group_by("kind").aggregate([("value", "sum"), ([], "count_all")])
    seconds = time.perf_counter() - began
    sums = np.bincount(np.arange(len(values)) % _KINDS, weights=values, minlength=_KINDS)
    if sum(groups["count_all"].to_pylist()) != len(values) or not np.array_equal(
        sums[groups["kind"].to_numpy()], groups["value_sum"].to_numpy()
    ):
        raise ValueError("the table has other rows than were written")
    return seconds


def _mib(size: int) -> float:
    return round(size / 2**20, 2)


_PANELS = (
    ("query_ms", "group-by over all rows, ms"),
    ("amplification", "rows read for each row that is seen"),
    ("stored_mib", "stored, MiB"),
    ("written_mib", "written by the compactor, MiB a day"),
)
_WIDTH, _HEIGHT, _LEFT, _GAP = 640, 90, 60, 34


def svg(days: Sequence[Day]) -> str:
    """A line for each figure, over the days."""
    height = len(_PANELS) * (_HEIGHT + _GAP) + 10
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" height="{height}" fill="#6b7680" role="img" '
            'font-family="sans-serif" font-size="13">'
        ),
        "<title>A year of daily updates</title>",
    ]
    for number, (name, title) in enumerate(_PANELS):
        top = number * (_HEIGHT + _GAP) + 22
        figures = [getattr(day, name) for day in days]
        most = max(figures) or 1.0
        step = (_WIDTH - _LEFT - 10) / max(1, len(days) - 1)
        points = " ".join(
            f"{_LEFT + place * step:.1f},{top + _HEIGHT * (1 - figure / most):.1f}"
            for place, figure in enumerate(figures)
        )
        base = top + _HEIGHT
        lines += [
            f'<text x="0" y="{top - 8}" font-weight="bold">{escape(title)}</text>',
            f'<text x="{_LEFT - 6}" y="{top + 10}" text-anchor="end">{most:g}</text>',
            f'<text x="{_LEFT - 6}" y="{base}" text-anchor="end">0</text>',
            f'<path d="M{_LEFT} {base}H{_WIDTH - 10}" stroke="#9aa5ad"/>',
            f'<polyline points="{points}" fill="none" stroke="#2f6f4f" stroke-width="1.5"/>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate a year, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    usual = Size()
    parser.add_argument("--rows", type=int, default=usual.rows)
    parser.add_argument("--changes", type=int, default=usual.changes)
    parser.add_argument("--days", type=int, default=usual.days)
    given = parser.parse_args(arguments)
    size = Size(rows=given.rows, changes=given.changes, days=given.days)
    with tempfile.TemporaryDirectory() as folder:
        days = year(size, Path(folder))
    document = {"size": asdict(size), "days": [asdict(day) for day in days]}
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "rows-year.json").write_text(json.dumps(document, indent=1) + "\n")
    (given.out / "rows-year.svg").write_text(svg(days))


if __name__ == "__main__":
    main()
