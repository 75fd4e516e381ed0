"""A backlog of a month is reduced to the planned shape in one run, by exactly the merges that were
printed before.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.run.once import compact_once, plan_table
from blockstore.compactor.run.report import job_json
from blockstore.compactor.settings import Settings
from blockstore.format import meta
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.index.change import Append
from blockstore.index.entry import Operation
from blockstore.names import meta_key
from blockstore.table import Table
from blockstore.world import World

HOUR = 3_600_000
DAY = 24 * HOUR
START = 1_700_000_000_000 // (14 * DAY) * 14 * DAY
SCHEMA = pa.schema([("time", pa.timestamp("ms", tz="UTC")), ("row", pa.int64())])


def month(blocks: int) -> Table:
    """Blocks of three rows each over 30 days, and a clock one day behind them."""
    world = World.manual(seed=3, now_ms=START + 31 * DAY)
    bucket = MemoryBucket(world.clock)
    index_log.create(bucket, world, Definition.create(SCHEMA, time_column="time", sort_by=["time"]))
    table = Table.open_bucket(bucket, world)
    written = []
    for number in range(blocks):
        first = START + number * 30 * DAY // blocks
        rows = {
            "time": [first, first + 1, first + 2],
            "row": [3 * number, 3 * number + 1, 3 * number + 2],
        }
        written.append(str(table.append(pa.table(rows, schema=SCHEMA), publish=False).ulid))
    metas = tuple(meta.decode(bucket.get(meta_key(ulid)).data, ulid=ulid) for ulid in written)
    table.log.commit(Append(commit=world.ids.ulid(), blocks=metas))
    return table


def test_a_thousand_blocks_of_a_month_come_down_to_the_planned_shape_in_one_run(
    tmp_path: Path,
) -> None:
    table = month(1_000)
    settings = Settings(work_dir=tmp_path)
    printed = [job_json(job) for job in plan_table(table, settings)]
    report = compact_once(table, settings)
    live = list(table.snapshot().blocks)
    windows = sorted((block.meta.min_time - START) // (14 * DAY) for block in live)
    assert windows[:2] == [0, 1]
    assert len(live) <= 2 + 3
    entries = {
        entry.id: entry for entry in table.log.entries() if entry.operation == Operation.COMPACT
    }
    written = [sorted(entries[number].remove) for number in sorted(entries)]
    expected = [sorted(one["ulid"] for one in job["inputs"]) for job in printed]  # type: ignore[attr-defined]
    assert written[: len(expected)] == expected
    assert len(written) == len(report.results)
    rows = table.snapshot().scan(columns=["row"]).to_table()["row"].to_pylist()
    assert sorted(rows) == list(range(3_000))
    again = compact_once(table, settings)
    assert (again.results, again.version, again.passes) == ((), report.version, 0)
