"""A year of daily updates to a table with a key, with the compactor at work: what the table weighs,
how many rows a query reads for each that it sees, and how long it takes, day by day.

The clock is simulated: it moves by a day, and a job moves it no further. Run it with
``python -m bench.rows_year OUT``; ``OUT`` gets ``rows-year.json`` and ``rows-year.svg``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.year_page import NAME, Day, Size, Year, svg
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
_INDEX = "index/"


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
    found = [_day(0, table, settings, 0.0, values, queried=True)]
    for day in range(1, size.days + 1):
        clock.advance(86_400)
        ids = rng.choice(size.rows, size.changes, replace=False)
        values[ids] = rng.integers(0, 1_000, len(ids))
        began = time.perf_counter()
        table.upsert(_rows(ids, values[ids]))
        took_s = time.perf_counter() - began
        queried = day % size.query_every == 0 or day == size.days
        found.append(_day(day, table, settings, took_s, values, queried=queried))
    return found


def _rows(ids: np.ndarray, values: np.ndarray) -> pa.Table:
    kinds = (ids % _KINDS).astype(np.int32)
    return pa.table({"id": ids, "kind": kinds, "value": values}, SCHEMA)


def _day(
    day: int,
    table: Table,
    settings: Settings,
    took_s: float,
    values: np.ndarray,
    *,
    queried: bool,
) -> Day:
    before = {block.meta.ulid for block in table.snapshot().snapshot.blocks}
    compact_once(table, settings)
    clean_once(table)
    metas = [block.meta for block in table.snapshot().snapshot.blocks]
    stored = list(table.bucket.list())
    queries = [_query(table, values) for _ in range(3)] if queried else []
    return Day(
        day=day,
        blocks=len(metas),
        live_mib=_mib(sum(meta.bytes for meta in metas)),
        stored_mib=_mib(sum(info.size for info in stored)),
        index_mib=_mib(sum(info.size for info in stored if info.key.startswith(_INDEX))),
        objects=len(stored),
        written_mib=_mib(
            sum(meta.bytes for meta in metas if meta.level > 1 and meta.ulid not in before)
        ),
        amplification=round(observe(table).read_amplification, 4) if queried else None,
        upsert_ms=round(took_s * 1000, 1),
        query_ms=_least_ms([wall for wall, _ in queries]),
        query_cpu_ms=_least_ms([cpu for _, cpu in queries]),
    )


def _query(table: Table, values: np.ndarray) -> tuple[float, float]:
    """The seconds of a query, and those of the processors in it."""
    began, busy = time.perf_counter(), time.process_time()
    rows = table.snapshot().scan(columns=["kind", "value"]).to_table()
    groups = rows.group_by("kind").aggregate([("value", "sum"), ([], "count_all")])
    seconds = time.perf_counter() - began, time.process_time() - busy
    sums = np.bincount(np.arange(len(values)) % _KINDS, weights=values, minlength=_KINDS)
    if sum(groups["count_all"].to_pylist()) != len(values) or not np.array_equal(
        sums[groups["kind"].to_numpy()], groups["value_sum"].to_numpy()
    ):
        raise ValueError("the table has other rows than were written")
    return seconds


def _least_ms(seconds: Sequence[float]) -> float | None:
    return round(min(seconds) * 1000, 1) if seconds else None


def _mib(size: int) -> float:
    return round(size / 2**20, 2)


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
    found = Year(date=f"{datetime.now(UTC):%Y-%m-%d}", size=size, days=tuple(days))
    given.out.mkdir(parents=True, exist_ok=True)
    found.save(given.out / f"{NAME}.json")
    (given.out / f"{NAME}.svg").write_text(svg(days))


if __name__ == "__main__":
    main()
