"""Pieces of a merge read the pages of their range, checked, and make the merge in one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.wrapper import Wrapper
from blockstore.compactor.merge import DamagedInput, Merged, MergeOptions, MergeTask, stage
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.part import CheckedSegments
from blockstore.compactor.merge.pieces import Pieces
from blockstore.compactor.merge.ranges import KeyRange
from blockstore.compactor.merge.result import merged_block
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.definition import Definition
from blockstore.format.segments import SEGMENT_BYTES, FileHashes
from blockstore.names import object_key
from tests.compactor.merge.blocks import Bench
from tests.compactor.merge.tables import KEY_TYPES, keyed_runs
from tests.support.examples import few
from tests.support.segments import segments_everywhere, segments_key

SCHEMA = pa.schema([("k", pa.int64()), ("row", pa.int64()), ("text", pa.string())])
quick = settings(
    max_examples=few(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Recorded(Wrapper):
    """A bucket that notes which ranges of each key are read."""

    def __init__(self, inner: MemoryBucket) -> None:
        super().__init__(inner)
        self.ranges: dict[str, list[range]] = defaultdict(list)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        data = self.inner.get_range(key, start, length)
        self.ranges[key].append(range(start, start + len(data)))
        return data


@contextmanager
def small_pages(rows: int = 7) -> Iterator[None]:
    """Blocks that are written have pages of a few rows; every block has hashes of segments, and all
    chunks count as large."""
    real = pq.ParquetWriter

    def writer(*given: object, **named: object) -> pq.ParquetWriter:
        return real(*given, **{**named, "max_rows_per_page": rows, "write_batch_size": rows})

    with (
        segments_everywhere(),
        mock.patch.object(stage, "WHOLE_BYTES", 0),
        mock.patch.object(pq, "ParquetWriter", writer),
    ):
        yield


def options(folder: Path) -> MergeOptions:
    return MergeOptions(memory_bytes=1 << 26, chunk_bytes=1 << 24, work_dir=folder)


def table(rows: int, seed: int) -> pa.Table:
    """Incompressible rows over the whole range of keys."""
    rng = np.random.default_rng(seed)
    texts = [f"{number:016x}" for number in rng.integers(0, 1 << 60, rows).tolist()]
    return pa.table(
        {
            "k": np.sort(rng.integers(0, 1 << 60, rows)),
            "row": rng.integers(0, 1 << 60, rows),
            "text": texts,
        },
        schema=SCHEMA,
    )


def bench(folder: Path) -> Bench:
    return Bench(folder, Definition.create(SCHEMA, sort_by=["k"]))


def rows_of(at: Bench, task: MergeTask, merged: Merged) -> list[str]:
    if not merged.written.rows:
        return []
    found = at.rows(merged_block(task, merged, visible_by=VisibleBy.INDEX))
    return [repr(row) for row in found.to_pylist()]


def twice(ranges: list[range]) -> int:
    """The bytes that several of the ranges have."""
    met = np.zeros(max(one.stop for one in ranges), np.int8)
    for one in ranges:
        met[one.start : one.stop] += 1
    return int((met > 1).sum())


def large_task(at: Bench, blocks: int = 2, rows: int = 300_000) -> MergeTask:
    task = at.task([at.block(table(rows, seed)) for seed in range(blocks)])
    assert all(item.meta.segments is not None for item in task.inputs)
    return task


def test_pieces_are_about_the_same_size_though_pages_begin_at_the_same_keys(tmp_path: Path) -> None:
    at = bench(tmp_path)
    task = large_task(at, rows=100_000)
    cut = Pieces().cut(at.bucket, task, 6)
    sizes = [
        Pieces().merge(at.bucket, at.world, one, options(tmp_path)).written.rows for one in cut
    ]
    assert len(sizes) == 6
    assert max(sizes) < 1.3 * min(sizes)


def test_pieces_together_read_their_inputs_once_but_for_the_pages_where_two_of_them_meet(
    tmp_path: Path,
) -> None:
    at = bench(tmp_path)
    task = large_task(at)
    whole = LocalEngine().merge(at.bucket, at.world, task, options(tmp_path))
    bucket = Recorded(at.bucket)
    cut = Pieces().cut(bucket, task, 3)
    size = sum(item.meta.bytes for item in task.inputs)
    spent = sum(len(one) for ranges in bucket.ranges.values() for one in ranges)
    assert spent < size // 20, "to cut reads what the footers say"

    parts, read = [], 0
    for piece in cut:
        bucket.ranges.clear()
        parts.append(Pieces().merge(bucket, at.world, piece, options(tmp_path)))
        for item in task.inputs:
            (file,) = item.meta.chunks
            assert file.footer is not None
            ranges = bucket.ranges[object_key(item.meta.ulid, file.path)]
            read += sum(map(len, ranges))
            assert twice(ranges) <= file.footer + 2 * SEGMENT_BYTES, "only the footer comes twice"
    assert len(parts) == 3
    # A page of 20,000 rows of each column, and a segment at each end of a range.
    page = size // sum(item.meta.rows for item in task.inputs) * 20_000
    met = len(task.inputs) * len(cut) * (page + 2 * len(SCHEMA) * SEGMENT_BYTES)
    assert size < read < size + met < 2 * size
    merged = Pieces().together(task, parts)
    assert merged is not None
    assert rows_of(at, task, merged) == rows_of(at, task, whole)
    assert list(tmp_path.iterdir()) == [], "nothing stays on the work disk"


@quick
@given(case=keyed_runs(max_rows=60), count=st.integers(2, 5))
def test_of_small_pages_the_pieces_are_row_for_row_the_merge_in_one(
    tmp_path: Path, case: tuple[list[str], list[pa.Table]], count: int
) -> None:
    keys, tables = case
    schema = pa.schema([*((name, KEY_TYPES[name][0]) for name in keys), ("row", pa.int64())])
    at = Bench(tmp_path, Definition.create(schema, sort_by=keys))
    with small_pages():
        metas = [at.block(one) for one in tables if one.num_rows]
        if not metas:
            return
        task = at.task(metas)
        whole = LocalEngine().merge(at.bucket, at.world, task, options(tmp_path))
        cut = Pieces().cut(at.bucket, task, count)
        parts = [Pieces().merge(at.bucket, at.world, one, options(tmp_path)) for one in cut]
    merged = Pieces().together(task, parts)
    assert merged is not None
    assert rows_of(at, task, merged) == rows_of(at, task, whole)


@quick
@given(
    keys=st.lists(st.one_of(st.integers(0, 30), st.none()), min_size=1, max_size=80),
    count=st.integers(2, 5),
)
def test_of_a_chunk_that_is_not_sorted_no_piece_doubles_or_loses_a_row(
    tmp_path: Path, keys: list[int | None], count: int
) -> None:
    at = Bench(
        tmp_path,
        Definition.create(pa.schema([("k", pa.int64()), ("row", pa.int64())]), sort_by=["k"]),
    )
    rows = pa.table({"k": pa.array(keys, pa.int64()), "row": range(len(keys))})
    with small_pages(5):
        task = at.task([at.block(rows, presorted=True), at.block(rows.slice(0, 3))])
        whole = LocalEngine().merge(at.bucket, at.world, task, options(tmp_path))
        cut = Pieces().cut(at.bucket, task, count)
        parts = [Pieces().merge(at.bucket, at.world, one, options(tmp_path)) for one in cut]
    merged = Pieces().together(task, parts)
    if merged is not None:
        assert rows_of(at, task, merged) == rows_of(at, task, whole)


def test_a_damaged_page_ends_the_piece_that_reads_it(tmp_path: Path) -> None:
    at = bench(tmp_path)
    task = large_task(at)
    meta = task.inputs[1].meta
    (file,) = meta.chunks
    key = object_key(meta.ulid, file.path)
    data = bytearray(at.bucket.get(key).data)
    data[1000] ^= 1  # of the first page of the leading column
    at.bucket.put(key, bytes(data))
    first, *others = Pieces().cut(at.bucket, task, 3)
    with pytest.raises(DamagedInput, match=f"block {meta.ulid}.*do not match") as found:
        Pieces().merge(at.bucket, at.world, first, options(tmp_path))
    assert found.value.ulid == meta.ulid
    for piece in others:
        Pieces().merge(at.bucket, at.world, piece, options(tmp_path))


@pytest.mark.parametrize("lost", ["object", "never", "damaged"])
def test_without_hashes_of_segments_chunks_are_checked_as_a_whole(
    tmp_path: Path, lost: str
) -> None:
    at = bench(tmp_path)
    task = large_task(at)
    if lost == "never":
        task = replace(
            task,
            inputs=tuple(
                replace(item, meta=replace(item.meta, segments=None)) for item in task.inputs
            ),
        )
    for item in task.inputs if lost != "never" else ():
        key = segments_key(item.meta)
        if lost == "object":
            at.bucket.delete([key])
        else:
            at.bucket.put(key, at.bucket.get(key).data[:-1] + b"!")
    whole = LocalEngine().merge(at.bucket, at.world, task, options(tmp_path))
    cut = Pieces().cut(at.bucket, task, 2)
    merged = Pieces().together(
        task, [Pieces().merge(at.bucket, at.world, one, options(tmp_path)) for one in cut]
    )
    assert merged is not None
    assert rows_of(at, task, merged) == rows_of(at, task, whole)
    (file,) = task.inputs[0].meta.chunks
    key = object_key(task.inputs[0].meta.ulid, file.path)
    at.bucket.put(key, at.bucket.get(key).data[:-1])
    with pytest.raises(DamagedInput):
        Pieces().merge(at.bucket, at.world, cut[1], options(tmp_path))


def test_a_chunk_that_is_gone_is_named(tmp_path: Path) -> None:
    at = bench(tmp_path)
    task = large_task(at)
    meta: BlockMeta = task.inputs[0].meta
    cut = Pieces().cut(at.bucket, task, 2)
    at.bucket.delete([object_key(meta.ulid, meta.chunks[0].path)])
    with pytest.raises(DamagedInput, match="lacks its chunk"):
        Pieces().merge(at.bucket, at.world, cut[0], options(tmp_path))


def test_nulls_of_a_page_that_begins_with_lesser_keys_are_in_the_last_piece(tmp_path: Path) -> None:
    """The page before the first one of nulls alone has some, and its bounds do not say so."""
    schema = pa.schema([("k", pa.int64()), ("row", pa.int64())])
    at = Bench(tmp_path, Definition.create(schema, sort_by=["k"]))
    lesser = pa.table({"k": [*range(45), *[None] * 40], "row": range(85)}, schema=schema)
    greater = pa.table({"k": range(100, 200), "row": range(100, 200)}, schema=schema)
    with small_pages(10):
        task = at.task([at.block(lesser), at.block(greater)])
        bounds = [None, (0, 20), (0, 150), None]
        cut = [
            replace(task, within=KeyRange(column="k", low=low, high=high))
            for low, high in pairwise(bounds)
        ]
        parts = [Pieces().merge(at.bucket, at.world, one, options(tmp_path)) for one in cut]
    assert [part.written.rows for part in parts] == [20, 25 + 50, 50 + 40]


def test_ranges_in_ascending_order_read_no_segment_twice(tmp_path: Path) -> None:
    bucket = MemoryBucket(Bench(tmp_path, Definition.create(SCHEMA)).world.clock)
    data = np.random.default_rng(1).bytes(5 * SEGMENT_BYTES + 100)
    hashes = FileHashes()
    hashes.update(data)
    bucket.put("key", data)
    recorded = Recorded(bucket)
    checked = CheckedSegments(recorded, "key", hashes.segments("key"), 2 * SEGMENT_BYTES)
    for start, stop in [(10, 20), (20, 70_000), (70_000, 300_000), (300_000, len(data))]:
        assert checked.read_at(stop - start, start) == data[start:stop]
    assert twice(recorded.ranges["key"]) == 0
    assert max(map(len, recorded.ranges["key"])) == 2 * SEGMENT_BYTES
