"""A merge in pieces: row for row what one worker writes, or nothing."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.compactor.merge import Merged, MergeInput, MergeOptions, MergeTask
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.pieces import Pieces
from blockstore.compactor.merge.result import merged_block
from blockstore.format.block import VisibleBy
from blockstore.format.definition import Definition
from tests.compactor.merge.blocks import Bench
from tests.compactor.merge.tables import KEY_TYPES, keyed_runs
from tests.support.examples import few

quick = settings(
    max_examples=few(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def options(tmp_path: Path) -> MergeOptions:
    return MergeOptions(memory_bytes=1 << 22, chunk_bytes=1 << 20, work_dir=tmp_path)


def in_pieces(
    at: Bench, task: MergeTask, count: int, how: MergeOptions
) -> tuple[int, Merged | None]:
    """The pieces, each carried as a worker gets it, and what they make."""
    pieces = Pieces()
    parts = pieces.cut(at.bucket, task, count)
    carried = [pickle.loads(pickle.dumps(part)) for part in parts]
    return len(parts), pieces.together(
        task, [pieces.merge(at.bucket, at.world, one, how) for one in carried]
    )


def rows_of(at: Bench, task: MergeTask, merged: Merged) -> list[str]:
    """The rows in their order, as text, in which NaN equals NaN."""
    if not merged.written.rows:
        return []
    return [
        repr(row)
        for row in at.rows(merged_block(task, merged, visible_by=VisibleBy.INDEX)).to_pylist()
    ]


def numbers(count: int, *, seed: int) -> pa.Table:
    values = np.random.default_rng(seed).integers(0, 10_000, count)
    return pa.table({"k": values, "row": np.arange(seed * count, (seed + 1) * count)})


def numbered(tmp_path: Path) -> Bench:
    schema = pa.schema([("k", pa.int64()), ("row", pa.int64())])
    return Bench(tmp_path, Definition.create(schema, sort_by=["k"]))


@quick
@given(case=keyed_runs(), count=st.integers(2, 5), data=st.data())
def test_pieces_together_are_row_for_row_the_merge_in_one(
    tmp_path: Path, case: tuple[list[str], list[pa.Table]], count: int, data: st.DataObject
) -> None:
    keys, tables = case
    schema = pa.schema([*((name, KEY_TYPES[name][0]) for name in keys), ("row", pa.int64())])
    at = Bench(tmp_path, Definition.create(schema, sort_by=keys))
    metas = [at.block(table) for table in tables if table.num_rows]
    if not metas:
        return
    hidden = data.draw(st.sets(st.sampled_from([meta.ulid for meta in metas])))
    task = at.task(
        [MergeInput(meta=meta, excepted=frozenset(hidden & {meta.ulid})) for meta in metas]
    )
    how = options(tmp_path)
    whole = LocalEngine().merge(at.bucket, at.world, task, how)
    _, merged = in_pieces(at, task, count, how)
    assert merged is not None
    assert merged.dropped_rows == whole.dropped_rows
    assert rows_of(at, task, merged) == rows_of(at, task, whole)
    assert list(tmp_path.iterdir()) == []


def test_a_merge_is_cut_into_pieces_of_about_the_same_size(tmp_path: Path) -> None:
    at = numbered(tmp_path)
    task = at.task([at.block(numbers(5_000, seed=seed)) for seed in range(4)])
    pieces = Pieces()
    sizes = [
        pieces.merge(at.bucket, at.world, part, options(tmp_path)).written.rows
        for part in pieces.cut(at.bucket, task, 4)
    ]
    assert len(sizes) == 4
    assert sum(sizes) == 20_000
    assert max(sizes) < 1.3 * min(sizes)


def test_blocks_that_do_not_overlap_are_cut_between_one_another_by_their_statistics_alone(
    tmp_path: Path,
) -> None:
    at = numbered(tmp_path)
    tables = [
        pa.table({"k": range(n * 100, n * 100 + 100), "row": range(n * 100, n * 100 + 100)})
        for n in range(20)
    ]
    metas = [at.block(table) for table in tables]
    at.bucket.delete([f"{metas[0].ulid}/{metas[0].files[0].path}"])
    parts = Pieces().cut(at.bucket, at.task(metas), 4)
    assert len(parts) == 4, "a chunk that cannot be read is no reason not to cut"


def test_pieces_that_miss_rows_of_an_unsorted_chunk_are_no_merge(tmp_path: Path) -> None:
    at = numbered(tmp_path)
    backwards = pa.table({"k": range(100_000, 0, -1), "row": range(100_000)})
    task = at.task([at.block(backwards, presorted=True), at.block(numbers(1000, seed=1))])
    count, merged = in_pieces(at, task, 3, options(tmp_path))
    assert count > 1
    assert merged is None
    whole = Pieces().merge(at.bucket, at.world, task, options(tmp_path))
    assert whole.written.rows == 101_000


@pytest.mark.parametrize("count", [0, 1])
def test_one_piece_is_the_task_itself(tmp_path: Path, count: int) -> None:
    at = numbered(tmp_path)
    task = at.task([at.block(numbers(10, seed=1))])
    assert Pieces().cut(at.bucket, task, count) == (task,)


def test_a_table_without_a_sort_key_and_one_key_for_all_are_not_cut(tmp_path: Path) -> None:
    plain = Bench(tmp_path, Definition.create(pa.schema([("k", pa.int64())])))
    task = plain.task([plain.block(pa.table({"k": range(100)}))])
    assert Pieces().cut(plain.bucket, task, 4) == (task,)
    at = numbered(tmp_path)
    same = at.task([at.block(pa.table({"k": [7] * 100, "row": range(100)}))])
    assert Pieces().cut(at.bucket, same, 4) == (same,)


def test_two_attempts_at_one_block_never_write_the_same_object(tmp_path: Path) -> None:
    at = numbered(tmp_path)
    task = at.task([at.block(numbers(100, seed=1))])
    first, second = (Pieces().merge(at.bucket, at.world, task, options(tmp_path)) for _ in range(2))
    assert {file.path for file in first.written.files}.isdisjoint(
        file.path for file in second.written.files
    )
    assert replace(first, written=second.written) == second
