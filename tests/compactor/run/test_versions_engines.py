"""What merges rows that have an identity: always this process, in bounded memory, over its work
disk; and what is said of such tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from blockstore.bucket.api import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.cli.main import run
from blockstore.compactor.merge import Merged, MergeOptions, MergeTask
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.run.execute import Executor
from blockstore.compactor.run.once import compact_once, merge_options, plan_seen
from blockstore.compactor.run.report import Outcome
from blockstore.format.block import BlockKind
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.table import Table, create
from blockstore.world import World
from tests.compactor.process.test_instruments import scraped
from tests.compactor.run.changing import Changing
from tests.compactor.tended import Tended

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("text", pa.string())])


class Distributing:
    """An engine that merges elsewhere, and knows nothing of versions."""

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        raise AssertionError("rows that have an identity are merged here")

    def merge_all(
        self, bucket: Bucket, world: World, tasks: Sequence[MergeTask], options: MergeOptions
    ) -> Iterator[tuple[int, Merged]]:
        raise AssertionError("rows that have an identity are merged here")


def test_an_engine_that_distributes_merges_leaves_these_to_the_local_one(tmp_path: Path) -> None:
    made = Changing(tmp_path, True)
    made.insert(range(3))
    made.insert(range(3))
    report = compact_once(made.open(), made.settings, engine=Distributing())
    assert [result.outcome for result in report.results] == [Outcome.COMMITTED]
    made.check()


@pytest.mark.parametrize("sorted_first", [False, True])
def test_large_blocks_are_merged_over_the_work_disk(tmp_path: Path, sorted_first: bool) -> None:

    world = World.manual(seed=1)
    bucket = MemoryBucket(world.clock)
    definition = Definition.create(SCHEMA, sort_by=["k"], row_ids=True)
    table = Table(bucket, world, index_log.create(bucket, world, definition))
    draw = np.random.default_rng(1)
    rows = 30_000
    for part in range(3):
        ids = np.arange(part * rows, (part + 1) * rows)
        data = {"id": ids, "k": draw.integers(0, 1000, rows), "text": [f"row {n:>60}" for n in ids]}
        table.append(pa.table(data, schema=SCHEMA))
    table.update({"text": "changed"}, where="k < 150")
    table.delete("k = 500")
    columns = ["_row_id", "_version", "id", "k", "text"]
    before = table.snapshot().scan(columns=columns).to_table().sort_by("_row_id")
    seen = Changing(tmp_path, True, world=world, bucket=bucket).look()
    if sorted_first:
        inputs = {
            ulid: replace(one, meta=replace(one.meta, sort_by=()))
            for ulid, one in seen.inputs.items()
        }
        seen = replace(seen, inputs=inputs)
    settings = Changing(tmp_path, True, world=world, bucket=bucket).settings
    options = replace(merge_options(settings), memory_bytes=2 << 20, chunk_bytes=1 << 20)
    jobs = plan_seen(seen, settings)
    assert sorted(job.kind for job in jobs) == [BlockKind.CHANGES, BlockKind.PLAIN]
    executor = Executor(table=table, engine=LocalEngine(), options=options)
    for job in jobs:
        assert executor.run(job, seen).outcome is Outcome.COMMITTED
        after = table.snapshot().scan(columns=columns).to_table().sort_by("_row_id")
        assert after.equals(before)
    assert seen.read_amplification > 1


def test_the_plan_says_which_rule_speaks_and_how_much_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file://{tmp_path}/t"
    table = create(url, schema=SCHEMA, row_ids=True)
    table.append(pa.table({"id": [1, 2], "k": [1, 2], "text": ["a", "b"]}))
    table.set_cells([{"_row_id": 0, "k": 3}])
    assert run(["compact", url, "--plan"]) == 0
    text = capsys.readouterr().out
    assert "purge: 1 of 2 rows are hidden by newer versions: more than a tenth" in text
    assert "read amplification 1.50: queries read 3 rows, 1 of which are not current" in text


def test_the_process_reports_how_much_is_read(tmp_path: Path) -> None:

    lake = Tended(tmp_path)
    lake.create("a")
    definition = Definition.create(SCHEMA, key="id")
    index_log.create(Prefixed(lake.bucket, "v"), lake.world, definition)
    table = lake.table("v")
    for k in range(2):
        table.upsert(pa.table({"id": [1], "k": [k], "text": ["a"]}))
    process = lake.process()
    process.look()
    process.turn("v", "backlog")
    assert 'blockstore_compactor_read_amplification{table="v"} 2.0' in scraped(process)
    assert 'blockstore_compactor_read_amplification{table="a"} 1.0' in scraped(process)
