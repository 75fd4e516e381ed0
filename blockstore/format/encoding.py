"""Encodings of a chunk in Parquet: compression, column encodings, row groups.

Rules:
- zstd level 1; the page index, column statistics and page checksums are written; the file contains
  the Arrow schema with the field ids. Checksums are for foreign readers: ours compare hashes.
- A column is dictionary-encoded only if a sample of it repeats: otherwise a dictionary makes files
  larger and writing slower.
- Integers and times with many values that never decrease in the sample (a sort key, or columns that
  follow it) are stored as differences even if they repeat: in a large merge their dictionary
  outgrows its page, and the rest of the column is then stored plain.
- Other integers and times are stored as differences, other texts as lengths and then bytes:
  smaller, and faster to write and to read (``docs/decisions/0011-encodings.md`` has the figures).
  Floats are plain, since Spark's own reader does not support BYTE_STREAM_SPLIT.
- A chunk of few rows has none of this: it would cost more than it saves.
- Pages of rows that are looked up one at a time, by their identity, are smaller: a page is decoded
  as a whole, whatever is needed of it (``docs/decisions/0011-encodings.md``).
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

_LEVEL = 1
_SMALL_ROWS = 10_000
_SAMPLE = 8_192
_REPEATS = 4
_LOOKED_UP_ROWS = 4_096
"""Rows of a page from which single rows are read."""
_FEW = 256
"""This many values make a small dictionary in any order."""

_DIFFERENCES = "DELTA_BINARY_PACKED"
_MAGIC = b"PAR1"

_ARROW_SCHEMA = "ARROW:schema"
"""The key under which Arrow finds the original schema of the rows."""


def open_parquet(
    sink: pa.NativeFile,
    schema: pa.Schema,
    sample: pa.Table,
    finished: list[pq.FileMetaData],
    *,
    looked_up: bool = False,
) -> pq.ParquetWriter:
    """Return a Parquet writer for rows like those of ``sample``.

    Args:
        sink: Where the file goes.
        schema: The file's. Texts that are codes of a dictionary in ``sample`` must be so in all
            rows; the file's schema says texts, as ``schema`` does.
        sample: Some of the rows.
        finished: At its close the writer adds the file's footer.
        looked_up: Whether the rows have an identity, by which single ones are read.
    """
    large = sample.num_rows >= _SMALL_ROWS
    repeating = _repeating(sample, schema) if large else []
    own = sample.schema.with_metadata(schema.metadata)
    coded = own.types != schema.types
    dictionary: Any = repeating or False
    writer = pq.ParquetWriter(
        sink,
        own if coded else schema,
        compression="zstd",
        compression_level=_LEVEL,
        use_dictionary=dictionary,
        column_encoding=_encodings(schema, repeating) if large else None,
        write_statistics=True,
        write_page_index=True,
        write_page_checksum=True,
        max_rows_per_page=_LOOKED_UP_ROWS if looked_up else None,
        store_schema=not coded,
        metadata_collector=finished,
    )
    if coded:
        encoded = base64.b64encode(schema.serialize()).decode()
        writer.add_key_value_metadata({_ARROW_SCHEMA: encoded, **(schema.metadata or {})})
    return writer


def rows_per_group(rows: int, size: int, row_group_rows: int, row_group_bytes: int) -> int:
    """Return how many rows make a row group within both limits, at least one; ``rows`` rows have
    ``size`` bytes."""
    width = max(1, size // max(1, rows))
    return max(1, min(row_group_rows, row_group_bytes // width))


def end_of_data(footer: pq.FileMetaData) -> int:
    """Return where the last page of a file ends: after it are the page index and the footer."""
    if not footer.num_row_groups:
        return len(_MAGIC)
    group = footer.row_group(footer.num_row_groups - 1)
    last = group.column(group.num_columns - 1)
    start = last.data_page_offset
    if last.has_dictionary_page:
        start = min(start, last.dictionary_page_offset)
    return int(start + last.total_compressed_size)


def _encodings(schema: pa.Schema, dictionaries: Collection[str]) -> dict[str, str]:
    """Return the encoding of each column that is neither dictionary-encoded nor plain."""
    chosen = {
        field.name: _encoding(field.type) for field in schema if field.name not in dictionaries
    }
    return {name: encoding for name, encoding in chosen.items() if encoding is not None}


def _encoding(kind: pa.DataType) -> str | None:
    if pt.is_integer(kind) or pt.is_temporal(kind):
        return _DIFFERENCES
    if (
        pt.is_string(kind)
        or pt.is_large_string(kind)
        or pt.is_binary(kind)
        or pt.is_large_binary(kind)
    ):
        return "DELTA_LENGTH_BYTE_ARRAY"
    return None


def _repeating(sample: pa.Table, schema: pa.Schema) -> list[str]:
    """The plain columns of which three quarters of a sample repeat, and those that ``schema`` says
    are dictionaries."""
    rows = min(sample.num_rows, _SAMPLE)
    names = []
    for field in schema:
        if pt.is_dictionary(field.type):
            names.append(field.name)
        elif not (pt.is_nested(field.type) or pt.is_boolean(field.type)):
            column = _values(sample.column(field.name).slice(0, rows))
            seen = pc.call_function("count_distinct", [column]).as_py()
            if seen * _REPEATS <= rows and not (seen > _FEW and _never_falls(column, field.type)):
                names.append(field.name)
    return names


def _values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """What is as different as the values: of a column with one dictionary its numbers."""
    if not pt.is_dictionary(column.type):
        return column
    return pa.chunked_array([part.indices for part in column.chunks], type=column.type.index_type)


def _never_falls(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Whether each number or time is at least the one before it;

    False if that is not known.
    """
    if _encoding(kind) != _DIFFERENCES or column.null_count:
        return False
    values = column.combine_chunks()
    falls = pc.any(pc.less(values.slice(1), values.slice(0, len(values) - 1)))
    return not falls.as_py()
