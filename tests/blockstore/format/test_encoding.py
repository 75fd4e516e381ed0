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


def test_a_sort_key_that_repeats_is_held_as_differences_and_few_values_as_a_dictionary() -> None:
    sorted_keys = np.arange(20_000) // 8
    rows = pa.table(
        {
            "key": sorted_keys,
            "at": pa.array(sorted_keys, pa.timestamp("us", tz="UTC")),
            "shuffled": np.random.default_rng(0).permutation(sorted_keys % 1_000),
            "day": pa.array(np.arange(20_000) // 1_000, pa.int32()).cast(pa.date32()),
        }
    )
    assert dictionaries(rows) == {"shuffled", "day"}


def test_a_chunk_of_few_rows_has_none() -> None:
    assert dictionaries(pa.table({"origin": ["EWR"] * 1000})) == set()


def test_a_column_that_is_a_dictionary_stays_one_in_a_large_chunk() -> None:
    rows = pa.table({"_source": pa.array(["a", "b"] * 10_000).dictionary_encode()})
    assert dictionaries(rows) == {"_source"}


EVERY_TYPE = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
    pa.uint64(),
    pa.date32(), pa.time32("ms"), pa.time64("us"), pa.timestamp("us"), pa.timestamp("ns", tz="UTC"),
    pa.duration("us"),
]  # fmt: skip


@pytest.mark.parametrize("kind", EVERY_TYPE, ids=str)
def test_whole_numbers_and_times_that_do_not_repeat_are_differences(kind: pa.DataType) -> None:
    wide = pa.array(np.arange(20_000) % 120)
    values = wide.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    unlike = pa.concat_arrays([pa.array([None], kind), values])
    assert read_back(pa.table({"distinct": unlike}), dictionaries=False) == {"DELTA_BINARY_PACKED"}


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str
)
def test_texts_that_do_not_repeat_are_lengths_and_bytes(kind: pa.DataType) -> None:
    values = pa.array([None, "", *(f"text {n}" for n in range(20_000))]).cast(kind)
    assert read_back(pa.table({"distinct": values})) == {"DELTA_LENGTH_BYTE_ARRAY"}


@pytest.mark.parametrize(
    "kind", [pa.float32(), pa.float64(), pa.decimal128(24, 2), pa.bool_()], ids=str
)
def test_what_spark_reads_only_plain_stays_plain(kind: pa.DataType) -> None:
    values = pa.array(np.arange(20_000)).cast(kind)
    assert not read_back(pa.table({"distinct": values})) & {
        "BYTE_STREAM_SPLIT",
        "DELTA_BINARY_PACKED",
    }


def test_a_chunk_of_few_rows_is_plain() -> None:
    assert read_back(pa.table({"n": np.arange(1000)})) == {"PLAIN"}


def read_back(rows: pa.Table, *, dictionaries: bool = True) -> set[str]:
    """The encodings of the one column's values; the file must hold the rows that were written."""
    sink = io.BytesIO()
    footers: list[pq.FileMetaData] = []
    with pytest.MonkeyPatch.context() as patch:
        if not dictionaries:  # a narrow type must repeat
            patch.setattr("blockstore.format.encoding._repeating", lambda sample, schema: [])
        with open_parquet(sink, rows.schema, rows, footers) as writer:
            writer.write_table(rows)
    assert pq.read_table(io.BytesIO(sink.getvalue())).equals(rows)
    return {
        encoding
        for encoding in footers[0].row_group(0).column(0).encodings
        if encoding not in ("RLE", "BIT_PACKED")
    }


@pytest.mark.parametrize(
    ("rows", "size", "expected"),
    [(1000, 8000, 1_000_000), (1000, 10**9, 128), (1, 10**12, 1), (0, 0, 1_000_000)],
)
def test_row_groups_keep_both_limits(rows: int, size: int, expected: int) -> None:
    assert rows_per_group(rows, size, 1_000_000, 128 * 10**6) == expected
