"""Texts that a file holds as codes of a dictionary: read as codes, and decoded a batch at a time,
or not at all.

Arrow's Parquet reader decodes a page of such a column text by text; decoding a complete batch by
its codes takes less than half of the time, with the same result. A merge copies the codes into the
file that it writes.

Rules:
- A code outside of the dictionary ends the read (ArrowIndexError): a damaged page must not show
  memory that is not text.
- Only files of writers that list each text once: Arrow removes duplicates as it reads, but keeps
  the codes as they were.
- A column whose name has a dot is skipped: for Arrow it could be a part of a nested column.
- Codes are small and texts may be large: a batch that would become too large is decoded in pieces.
- The file is the same whether a writer gets texts or codes: the column's type is text, and its
  dictionary lists the texts in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_CODE_BYTES = 4
"""The length of an uncoded text takes as many bytes."""

_READABLE = frozenset({"PLAIN", "RLE", "BIT_PACKED", "RLE_DICTIONARY", "PLAIN_DICTIONARY"})
"""Some writers switch from a dictionary to differences or shared prefixes, which Arrow's reader
cannot read as codes."""

_LIST_ONCE = ("parquet-cpp-arrow ", "parquet-mr ", "DuckDB ")
"""The beginnings of these writers' names."""

_MET_ROWS = 1 << 16
"""In this many rows, most columns have shown all of their texts."""

_PIECE_BYTES = 256 << 20
"""The most that a column of a piece takes, unless one row takes more; Arrow's limit is 2 GiB."""


def coded_texts(
    parquet: pq.ParquetFile, columns: Collection[str] | None, groups: Collection[int]
) -> list[str]:
    """Return the text columns, of these or of all, that are codes of a dictionary in all of these
    row groups.

    The footer shows this only indirectly, since a writer may stop using a dictionary within a
    column. A column that is wrongly listed is still read correctly, but slowly.
    """
    schema, metadata = parquet.schema_arrow, parquet.metadata
    if not metadata.created_by.startswith(_LIST_ONCE):
        return []
    wanted = None if columns is None else frozenset(columns)
    texts = {
        field.name
        for field in schema
        if pa.types.is_string(field.type)
        and "." not in field.name
        and (wanted is None or field.name in wanted)
    }
    for group in map(metadata.row_group, groups):
        if not texts:
            break
        for part in map(group.column, range(group.num_columns)):
            if part.path_in_schema in texts and not _is_coded(part):
                texts.discard(part.path_in_schema)
    return sorted(texts)


def _is_coded(part: pq.ColumnChunkMetaData) -> bool:
    return (
        bool(part.has_dictionary_page)
        and part.total_uncompressed_size < _CODE_BYTES * part.num_values
        and _READABLE.issuperset(part.encodings)
    )


def with_codes(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """Return the schema, with the text columns of these names as codes of a dictionary."""
    for place, field in enumerate(schema):
        if field.name in names and pa.types.is_string(field.type):
            schema = schema.set(place, field.with_type(pa.dictionary(pa.int32(), field.type)))
    return schema


def renumbered(rows: pa.Table, names: Collection[str]) -> pa.Table:
    """Return the rows, each coded column with one dictionary; those of ``names`` with only the
    texts that occur, in the order of the rows.

    Parquet would write all but the first of several dictionaries of a row group as plain texts.
    """
    rows = rows.unify_dictionaries()
    for name in names:
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), _renumbered(rows.column(place)))
    return rows


def check_codes(rows: pa.Table) -> None:
    """Raise ArrowIndexError for a code outside of its dictionary, which Arrow does not check."""
    import pyarrow.compute as pc

    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if not pa.types.is_dictionary(column.type):
            continue
        for part in column.chunks:
            found = pc.call_function("min_max", [part.indices])
            low, high = found["min"].as_py(), found["max"].as_py()
            if low is not None and not 0 <= low <= high < len(part.dictionary):
                raise pa.ArrowIndexError(
                    f"column {name!r} has codes from {low} to {high} for a dictionary of "
                    f"{len(part.dictionary)} texts"
                )


def text_bytes(batch: pa.RecordBatch, names: Collection[str]) -> int:
    """Return how many more bytes (or fewer, if negative) the batch would take with texts in place
    of codes and a dictionary in these columns."""
    return sum(_text_bytes(batch.column(name)) for name in names)


def _text_bytes(column: pa.DictionaryArray) -> int:
    import pyarrow.compute as pc

    lengths = pc.call_function("binary_length", [column.dictionary])
    texts = pc.call_function("sum", [lengths.take(column.indices)]).as_py() or 0
    return int(texts - column.dictionary.nbytes)


def _renumbered(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    if not column.num_chunks:
        return column
    texts = column.chunk(0).dictionary
    codes = pa.chunked_array([part.indices for part in column.chunks])
    met = codes.slice(0, _MET_ROWS).unique().drop_null()
    if len(met) < len(texts):
        met = codes.unique().drop_null()
    if met.to_pylist() == list(range(len(texts))):
        return column
    places = np.zeros(len(texts), np.int32)
    places[met.to_numpy()] = np.arange(len(met), dtype=np.int32)
    kept = texts.take(met)
    numbers = pc.take(pa.array(places), codes)
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(part, kept) for part in numbers.chunks], type=column.type
    )


def decoded(batch: pa.RecordBatch, names: Collection[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the batch in their order, with these columns as texts."""
    if not names:
        yield batch
        return
    widest = max((_widest(batch.column(name).dictionary) for name in names), default=0)
    rows = max(1, _PIECE_BYTES // max(1, widest))
    for start in range(0, batch.num_rows, rows):
        yield _decoded(batch.slice(start, rows), names)


def _widest(texts: pa.Array) -> int:
    import pyarrow.compute as pc

    return pc.max(pc.binary_length(texts)).as_py() or 0


def _decoded(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    import pyarrow.compute as pc

    for name in names:
        at = batch.schema.get_field_index(name)
        field = batch.schema.field(at)
        coded = batch.column(at)
        # With ``boundscheck``, ``take`` refuses a code outside of the dictionary.
        column = pc.take(coded.dictionary, coded.indices, boundscheck=True)
        batch = batch.set_column(at, field.with_type(column.type), column)
    return batch
