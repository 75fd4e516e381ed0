"""Texts that a file holds as numbers into a dictionary: read as such, and decoded a batch at a time.

Arrow's Parquet reader decodes a page of such a column text by text; a whole batch, decoded by its numbers, takes less than half of
the time. What comes out is the same.

Rules:
- A number that is none of the dictionary's ends the read (ArrowIndexError): a damaged page must not show memory that is no text.
- A column whose name has a dot is left alone: for Arrow it could as well be a part of a nested one.
- Numbers are small and texts may be wide: a batch that would become too large is decoded piece by piece.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["coded_texts", "decoded"]

_CODE_BYTES = 4
"""A text that is not coded takes as many bytes for its length alone."""

_PIECE_BYTES = 256 << 20
"""What a column of a piece takes at most, or one row; Arrow itself takes no more than 2 GiB of it."""


def coded_texts(parquet: pq.ParquetFile, columns: Sequence[str] | None, groups: Collection[int]) -> list[str]:
    """The columns of plain text, of these or of all, that are numbers of a dictionary in all of these row groups.

    Told by the footer, which does not say it outright: a writer may give a dictionary up in the midst of a column. One that is
    taken for coded and is not costs time, and is read right all the same.
    """
    schema, metadata = parquet.schema_arrow, parquet.metadata
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
            if part.path_in_schema in texts and not (
                part.has_dictionary_page and part.total_uncompressed_size < _CODE_BYTES * part.num_values
            ):
                texts.discard(part.path_in_schema)
    return sorted(texts)


def decoded(batch: pa.RecordBatch, names: Collection[str]) -> Iterator[pa.RecordBatch]:
    """The rows of the batch in their order, with these columns as the texts that they are."""
    if not names:
        yield batch
        return
    widest = max((_widest(batch.column(name).dictionary) for name in names), default=0)
    rows = max(1, _PIECE_BYTES // max(1, widest))
    for start in range(0, batch.num_rows, rows):
        yield _decoded(batch.slice(start, rows), names)


def _widest(texts: pa.Array) -> int:
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _decoded(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    for name in names:
        at = batch.schema.get_field_index(name)
        field = batch.schema.field(at)
        coded = batch.column(at)
        # ``take`` promises to refuse a number that is none of the dictionary's.
        column = pc.take(coded.dictionary, coded.indices, boundscheck=True)
        batch = batch.set_column(at, field.with_type(column.type), column)
    return batch
