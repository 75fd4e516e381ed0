"""The weight of a chunk's rows: what they take in Arrow, before they are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.compactor.merge.weight import Weight, row_width, varying, weigh, weigh_plain
from tests.support.parquet import ENCODINGS, parquet

ROWS = 90_000
WIDE = 60_000
"""From this row on, rows are wide."""

TABLE = pa.table(
    {
        "k": pa.array(range(ROWS), pa.int32()),
        "flag": pa.array([True, None] * (ROWS // 2)),
        "text": [None if row < WIDE else f"{row % 10}" * 400 for row in range(ROWS)],
        "list": pa.array([[1.0] * (row % 5) for row in range(ROWS)], pa.list_(pa.float64())),
        "_source": ["01JD0000000000000000000000"] * ROWS,
    }
)
SHOWN = TABLE.drop_columns(["_source"])


def weight_of(file: pa.BufferReader, groups: list[int], schema: pa.Schema = SHOWN.schema) -> Weight:
    metadata = pq.ParquetFile(file).metadata
    return weigh(file, metadata, groups, varying(metadata), row_width(schema), without="_source")


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("group_rows", [1 << 20, 25_000])
def test_any_stretch_of_rows_weighs_what_it_takes_in_arrow_give_or_take_a_page(
    encoding: str, group_rows: int
) -> None:
    file = parquet(TABLE, encoding, group_rows=group_rows)
    weight = weight_of(file, list(range(pq.ParquetFile(file).num_row_groups)))
    assert weight.sure is (encoding != "DELTA_BYTE_ARRAY")
    assert weight.bytes == pytest.approx(SHOWN.nbytes, rel=0.05)
    for first in range(0, ROWS, 10_000):
        found = weight.before(first + 10_000) - weight.before(first)
        assert found == pytest.approx(
            SHOWN.slice(first, 10_000).nbytes, rel=0.1, abs=weight.page_bytes
        )


def test_the_row_before_which_so_many_bytes_lie_is_found_however_wide_rows_are() -> None:
    weight = weight_of(parquet(TABLE), [0])
    for row in range(0, ROWS, 7_000):
        assert weight.row_at(weight.before(row)) == pytest.approx(row, abs=1)
    narrow = weight.row_at(100_000)
    wide = weight.row_at(weight.before(80_000) + 100_000) - 80_000
    assert narrow > 8 * wide


def test_only_the_row_groups_that_are_read_weigh() -> None:
    file = parquet(TABLE, group_rows=30_000)
    narrow, wide = weight_of(file, [0, 1]), weight_of(file, [2])
    assert narrow.rows[-1] == 60_000
    assert wide.bytes > 3 * narrow.bytes
    assert wide.reader_bytes > narrow.reader_bytes
    assert weight_of(file, []).bytes == 0


def test_what_a_file_does_not_record_is_not_sure() -> None:
    for encoding in ENCODINGS:
        assert not weight_of(parquet(TABLE, encoding, index=False), [0]).sure


def test_the_footer_alone_shows_the_weight_of_plain_texts() -> None:
    width = row_width(SHOWN.schema)
    for encoding, plain in zip(ENCODINGS, (True, True, False, False), strict=True):
        metadata = pq.ParquetFile(parquet(SHOWN, encoding, index=False)).metadata
        found = weigh_plain(metadata, varying(metadata), width)
        if plain:
            assert found == pytest.approx(SHOWN.nbytes, rel=0.1)
        else:
            assert found is None


def test_numbers_weigh_by_their_width_alone() -> None:
    table = pa.table({"a": np.arange(1000), "b": pa.array([1.5] * 1000, pa.float32())})
    file = parquet(table)
    metadata = pq.ParquetFile(file).metadata
    assert varying(metadata) == ()
    assert weigh_plain(metadata, (), row_width(table.schema)) == table.nbytes
    assert weight_of(file, [0], table.schema).bytes == table.nbytes


def test_a_reader_takes_the_largest_page_of_wide_texts() -> None:
    """Writers look at a page's size once in a thousand rows: so many texts of 20 kB are one
    page."""
    table = pa.table({"text": ["x" * 20_000 + str(row % 5) for row in range(1000)]})
    assert weight_of(parquet(table), [0], table.schema).reader_bytes > 20_000_000
    assert weight_of(parquet(table, "dictionary"), [0], table.schema).reader_bytes < 1_000_000
