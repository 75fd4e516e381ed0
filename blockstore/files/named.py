"""Which files a block names: its file columns, read alone.

Rule: a block is never edited, so what it names is read once. Columns are those of the block's own
schema, also where the table has renamed or dropped them since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from blockstore.bucket.api import ReadBucket
from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.format.features import COLUMNS
from blockstore.format.file_handle import file_columns
from blockstore.names import object_key

Cell = Mapping[str, Any]
"""A handle as a cell holds it; not checked."""


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A cell that names a file."""

    column: str
    row: int
    """Its number in the batch, from 0."""
    handle: Cell


def columns_with_files(definition: Definition) -> tuple[str, ...]:
    """Return the columns of a table whose cells name files."""
    if COLUMNS not in definition.requires:
        return ()
    return definition.memo("file columns", lambda: file_columns(definition.schema))


def ever_had_files(definition: Definition, before: Collection[str] = ()) -> bool:
    """Return whether the table may have files: a schema of it, also an earlier one, has a column of
    them, or tables that were dropped ``before`` it, of which only the features are known, can have
    had one."""
    if COLUMNS in before:
        return True
    return COLUMNS in definition.requires and any(map(file_columns, definition.schemas.values()))


def handles_in(batch: pa.RecordBatch, columns: tuple[str, ...]) -> Iterator[NamedFile]:
    """Yield the cells of these columns that are not null."""
    for name in columns:
        column = batch.column(name)
        if column.null_count == len(column):
            continue
        for row, handle in enumerate(column.to_pylist()):
            if handle is not None:
                yield NamedFile(name, row, handle)


def named_by_block(bucket: ReadBucket, meta: BlockMeta, schema: pa.Schema) -> Iterator[NamedFile]:
    """Yield every cell of a block that names a file; ``schema`` is that of the block. Raises
    ObjectMissing and Corrupt where it cannot be read."""
    columns = file_columns(schema)
    if not columns:
        return
    from blockstore.format.chunk_reader import read_batches

    for file in meta.chunks:
        key = object_key(meta.ulid, file.path)
        for batch in read_batches(bucket, key, file, columns):
            present = tuple(name for name in columns if name in batch.schema.names)
            yield from handles_in(batch, present)
