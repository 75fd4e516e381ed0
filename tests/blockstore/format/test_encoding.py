"""Encoding: a dictionary only where it pays, row groups within their limits."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.format.encoding import open_parquet, rows_per_group


def dictionaries(rows: pa.Table) -> set[str]:
    """The columns that a file of these rows holds as dictionaries; checks what every file has."""
    sink = io.BytesIO()
    footers: list[pq.FileMetaData] = []
    with open_parquet(sink, rows.schema, rows, footers) as writer:
        writer.write_table(rows)
    columns = [footers[0].row_group(0).column(at) for at in range(rows.num_columns)]
    assert all(
        column.compression == "ZSTD" and column.has_column_index and column.has_offset_index
        for column in columns
    )
    return {column.path_in_schema for column in columns if "RLE_DICTIONARY" in column.encodings}


def test_only_columns_that_repeat_are_dictionaries() -> None:
    count = 20_000
    rows = pa.table(
        {
            "origin": pa.array(["EWR", "JFK"] * (count // 2)),
            "delay": pa.array(np.arange(count) % 50 / 2),
            "id": pa.array([f"N{n}" for n in range(count)]),
            "n": pa.array(np.arange(count)),
            "flag": pa.array([True, False] * (count // 2)),
            "l": pa.array([[1]] * count),
        }
    )
    assert dictionaries(rows) == {"origin", "delay"}


def test_a_chunk_of_few_rows_has_none() -> None:
    assert dictionaries(pa.table({"origin": ["EWR"] * 1000})) == set()


def test_a_column_that_is_a_dictionary_stays_one_in_a_large_chunk() -> None:
    rows = pa.table({"_source": pa.array(["a", "b"] * 10_000).dictionary_encode()})
    assert dictionaries(rows) == {"_source"}


@pytest.mark.parametrize(
    ("rows", "size", "expected"),
    [(1000, 8000, 1_000_000), (1000, 10**9, 128), (1, 10**12, 1), (0, 0, 1_000_000)],
)
def test_row_groups_keep_both_limits(rows: int, size: int, expected: int) -> None:
    assert rows_per_group(rows, size, 1_000_000, 128 * 10**6) == expected
