"""Batches of an open file: all rows in their order, and none much larger than was wanted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.compactor.merge.batches import batches
from blockstore.compactor.merge.weight import row_width, varying, weigh
from tests.support.parquet import ENCODINGS, parquet

GOAL = 256 << 10


def narrow_then_wide(narrow: int, wide: int) -> pa.Table:
    texts = [None] * narrow + [f"{row % 10}" * 4_000 for row in range(wide)]
    return pa.table({"k": range(narrow + wide), "text": pa.array(texts, pa.string())})


def read(table: pa.Table, file: pa.BufferReader, goal_bytes: int = GOAL) -> list[pa.Table]:
    opened = pq.ParquetFile(file, pre_buffer=False)
    groups = range(opened.num_row_groups)
    weight = weigh(
        file, opened.metadata, groups, varying(opened.metadata), row_width(table.schema), without=""
    )
    found = list(batches(opened, groups, weight, goal_bytes))
    assert pa.concat_tables(found).equals(table)
    return found


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("group_rows", [1 << 20, 5_000])
@pytest.mark.parametrize(("narrow", "wide"), [(2_000, 4_000), (60_000, 2_000)])
def test_no_batch_is_much_larger_than_wanted_where_wide_rows_follow_narrow_ones(
    encoding: str, group_rows: int, narrow: int, wide: int
) -> None:
    table = narrow_then_wide(narrow, wide)
    found = read(table, parquet(table, encoding, group_rows=group_rows))
    # A page of 20,000 rows may hold both: its wide rows weigh more than they were planned with,
    # once.
    assert max(batch.nbytes for batch in found) < 5 * GOAL
    late = sorted(batch.nbytes for batch in found if batch["k"][0].as_py() > narrow)
    assert late[-2] < 3 * GOAL


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_file_that_does_not_record_sizes_is_read_in_batches_that_begin_small(
    encoding: str,
) -> None:
    table = narrow_then_wide(0, 4_000)
    found = read(table, parquet(table, encoding, index=False))
    assert max(batch.nbytes for batch in found) < 2 * GOAL
    leap = narrow_then_wide(30_000, 4_000)
    sizes = sorted(batch.nbytes for batch in read(leap, parquet(leap, encoding, index=False)))
    assert sizes[-1] <= 4 * GOAL, "a leap in width costs one batch, which is handed on in pieces"


def test_lists_are_weighed_as_texts_are() -> None:
    lengths = [0] * 30_000 + [1_000] * 2_000
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    values = pa.array(np.random.default_rng(0).random(sum(lengths), dtype=np.float32))
    table = pa.table({"k": range(len(lengths)), "list": pa.ListArray.from_arrays(offsets, values)})
    sizes = sorted(batch.nbytes for batch in read(table, parquet(table)))
    assert sizes[-1] < 5 * GOAL
    assert sizes[-2] < 2 * GOAL


def test_rows_of_one_width_come_in_batches_of_half_the_goal() -> None:
    table = pa.table({"k": range(200_000), "text": [f"{row:020d}" for row in range(200_000)]})
    found = read(table, parquet(table, "DELTA_LENGTH_BYTE_ARRAY"))
    assert all(0.4 * GOAL < batch.nbytes < 0.6 * GOAL for batch in found[:-1])


def test_a_row_larger_than_the_goal_is_a_batch_of_its_own() -> None:
    table = pa.table({"k": range(5), "text": ["x" * GOAL * 2] * 5})
    assert [batch.num_rows for batch in read(table, parquet(table))] == [1] * 5
