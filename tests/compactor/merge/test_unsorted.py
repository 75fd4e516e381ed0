"""Chunks that are not in the table's order: sorted first, in one pass, and reported in one
sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from blockstore.bucket import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.wrapper import Wrapper
from blockstore.compactor.merge import Merged, MergeOptions
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.pieces import Pieces
from blockstore.compactor.merge.result import merged_block
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.definition import Definition
from tests.compactor.merge.blocks import Bench

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("row", pa.int64())])
ROWS = 300


def bench(tmp_path: Path, *sort_by: str) -> Bench:
    return Bench(tmp_path, Definition.create(SCHEMA, sort_by=sort_by))


def rows(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    first = seed * ROWS
    columns = [rng.integers(0, 50, ROWS), rng.integers(0, 50, ROWS), np.arange(first, first + ROWS)]
    return pa.table(columns, schema=SCHEMA)


class Reads(Wrapper):
    """How often each object was read from its beginning: once an attempt that reads it."""

    def __init__(self, inner: Bucket) -> None:
        super().__init__(inner)
        self.counts: Counter[str] = Counter()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.counts[key] += start == 0
        return super().get_range(key, start, length)


def merged(at: Bench, metas: Sequence[BlockMeta]) -> tuple[pa.Table, Merged, int]:
    """The rows of the merge of small blocks, its result, and how often it read the chunk that
    it read most."""
    reads = Reads(at.bucket)
    task = at.task(metas)
    options = MergeOptions(memory_bytes=1 << 26, chunk_bytes=1 << 20, work_dir=at.work_dir)
    done = LocalEngine().merge(reads, at.world, task, options)
    assert list(at.work_dir.iterdir()) == []
    return (
        at.rows(merged_block(task, done, visible_by=VisibleBy.INDEX)),
        done,
        max(reads.counts.values()),
    )


def check_rows(at: Bench, found: pa.Table, metas: Sequence[BlockMeta]) -> None:
    """Every row once, in the table's order."""
    expected = sum(meta.rows for meta in metas)
    assert sorted(found["row"].to_pylist()) == list(range(expected))
    keys = list(zip(*(found[name].to_pylist() for name in at.definition.sort_by), strict=True))
    assert keys == sorted(keys)


@pytest.mark.parametrize("before", [("a",), (), ("b", "a"), ("a", "b", "row")])
def test_blocks_of_another_sort_key_are_sorted_first_without_an_attempt_for_each(
    tmp_path: Path, before: tuple[str, ...]
) -> None:
    old, new = bench(tmp_path, *before).definition, bench(tmp_path, "b", "row")
    metas = [*(new.block(rows(seed), definition=old) for seed in range(20)), new.block(rows(20))]
    found, done, reads = merged(new, metas)
    check_rows(new, found, metas)
    assert reads == 1
    assert done.notes == (
        "20 blocks were not sorted by b, row, the table's sort key: they were sorted first",
    )


def test_a_key_that_begins_with_the_tables_is_as_good_as_its_own(tmp_path: Path) -> None:
    at = bench(tmp_path, "a")
    longer = bench(tmp_path, "a", "b").definition
    metas = [at.block(rows(seed), definition=longer) for seed in range(3)]
    found, done, reads = merged(at, metas)
    check_rows(at, found, metas)
    assert (reads, done.notes) == (1, ())


def test_one_surprise_counts_for_all_chunks_of_its_block(tmp_path: Path) -> None:
    at = bench(tmp_path, "a")
    wild = at.block(*(rows(seed) for seed in range(5)), presorted=True)
    metas = [wild, *(at.block(rows(seed)) for seed in range(5, 8))]
    found, done, reads = merged(at, metas)
    check_rows(at, found, metas)
    assert reads == 2
    [note] = done.notes
    assert (
        f"of block {wild.ulid} is not sorted by a: all chunks of the block were sorted first"
        in note
    )


def test_many_surprises_are_not_waited_for_one_by_one(tmp_path: Path) -> None:
    at = bench(tmp_path, "a")
    metas = [at.block(rows(seed), presorted=True) for seed in range(20)]
    found, done, reads = merged(at, metas)
    check_rows(at, found, metas)
    assert reads == 4
    assert len(done.notes) == 4
    assert done.notes[-1].startswith(
        "3 blocks are not sorted by a as they declare, so all others were sorted first too"
    )


def test_blocks_of_another_sort_key_can_be_merged_in_pieces(tmp_path: Path) -> None:
    """A piece reads on where a sorted chunk would be past its range, so that no row is missed."""
    at, old = bench(tmp_path, "b"), bench(tmp_path, "a").definition
    task = at.task([at.block(rows(seed), definition=old) for seed in range(6)])
    options = MergeOptions(memory_bytes=1 << 22, chunk_bytes=1 << 20, work_dir=tmp_path)
    parts = Pieces().cut(at.bucket, task, 3)
    assert len(parts) == 3
    whole = Pieces().together(
        task, [Pieces().merge(at.bucket, at.world, part, options) for part in parts]
    )
    assert whole is not None
    found = at.rows(merged_block(task, whole, visible_by=VisibleBy.INDEX))
    check_rows(at, found, [one.meta for one in task.inputs])
    assert whole.notes == (
        "6 blocks were not sorted by b, the table's sort key: they were sorted first",
    )


def test_room_is_looked_for_where_rows_are_to_be_sorted_first(tmp_path: Path) -> None:
    """What is sorted first passes over the work disk, and that is known before."""
    at, old = bench(tmp_path, "b"), bench(tmp_path, "a").definition
    asked: list[Path] = []

    def free(path: Path) -> int:
        asked.append(path)
        return 1 << 40

    options = MergeOptions(memory_bytes=1 << 26, work_dir=tmp_path)
    assert isinstance(at.bucket, MemoryBucket)
    for definition, looks in ((at.definition, 0), (old, 1)):
        asked.clear()
        task = at.task([at.block(rows(seed), definition=definition) for seed in range(2)])
        LocalEngine(free).merge(
            at.bucket, at.world, replace(task, ulid=at.world.ids.ulid()), options
        )
        assert len(asked) == looks
