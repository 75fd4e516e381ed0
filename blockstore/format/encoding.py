"""How the rows of a chunk become Parquet: compression, encodings, row groups.

Rules:
- zstd level 1; the page index and column statistics are written; the Arrow schema with the field
  ids stands in the file.
- A column is dictionary-encoded only where a sample of it repeats, since a dictionary of a column
  that does not makes files larger and writing slower.
- Many whole numbers and times that never fall in the sample (a sort key, or what follows it) are
  held as differences even where they repeat: a dictionary of them outgrows its page in a large
  merge, and the rest of the column then stands plain.
- Other whole numbers and times are held as differences, other texts as lengths and then bytes:
  smaller, and quicker to write and to read (``docs/decisions/0011-encodings.md`` has the figures).
  Floats stay plain, since Spark's own reader knows no BYTE_STREAM_SPLIT.
- In a chunk of few rows none of this is worth its making.
"""

from __future__ import annotations

import base64
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

_LEVEL = 1
_SMALL_ROWS = 10_000
_SAMPLE = 8_192
_REPEATS = 4
_FEW = 256
"""So few values make a small dictionary, whatever their order."""

_DIFFERENCES = "DELTA_BINARY_PACKED"

_ARROW_SCHEMA = "ARROW:schema"
"""Where Arrow looks for the schema of the rows as they were before they became Parquet."""


def open_parquet(
    sink: pa.NativeFile, schema: pa.Schema, sample: pa.Table, finished: list[pq.FileMetaData]
) -> pq.ParquetWriter:
    """A Parquet writer for rows like those of ``sample``; once closed, it adds the file's footer to
    ``finished``.

    Texts that are numbers of a dictionary in ``sample`` are so in all rows; the file holds them as
    ``schema`` says: as texts.
    """
    large = sample.num_rows >= _SMALL_ROWS
    repeating = _repeating(sample, schema) if large else []
    own = sample.schema.with_metadata(schema.metadata)
    coded = own.types != schema.types
    writer = pq.ParquetWriter(
        sink,
        own if coded else schema,
        compression="zstd",
        compression_level=_LEVEL,
        use_dictionary=repeating or False,
        column_encoding=_encodings(schema, repeating) if large else None,
        write_statistics=True,
        write_page_index=True,
        store_schema=not coded,
        metadata_collector=finished,
    )
    if coded:
        told = base64.b64encode(schema.serialize()).decode()
        writer.add_key_value_metadata({_ARROW_SCHEMA: told, **(schema.metadata or {})})
    return writer


def rows_per_group(rows: int, size: int, row_group_rows: int, row_group_bytes: int) -> int:
    """How many rows make a row group within both limits, if so many of them have this size; at
    least one."""
    width = max(1, size // max(1, rows))
    return max(1, min(row_group_rows, row_group_bytes // width))


def _encodings(schema: pa.Schema, dictionaries: Collection[str]) -> dict[str, str]:
    """The encoding of each column that is neither a dictionary nor best left plain."""
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

    False where that cannot be told.
    """
    if _encoding(kind) != _DIFFERENCES or column.null_count:
        return False
    values = column.combine_chunks()
    falls = pc.any(pc.less(values.slice(1), values.slice(0, len(values) - 1)))
    return not falls.as_py()
