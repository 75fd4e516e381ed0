"""The rows of an upload that is an Arrow stream, and what is done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.format.block import Job
from blockstore.format.identity import Key
from blockstore.operations.overwrite import overwrite
from blockstore.operations.results import Changed
from blockstore.operations.writer import WriteOptions, Writer
from blockstore.reader.jobs.arrow_sizes import check_sizes
from blockstore.reader.jobs.meter import Meter
from blockstore.reader.jobs.plain_sizes import pieces
from blockstore.reader.jobs.work import Ended
from blockstore.reader.jobs.writing import BUFFER_BYTES, access_of
from blockstore.rows.attempts import Said
from blockstore.rows.insert import insert, upsert
from blockstore.rows.overwrite import overwrite_rows
from blockstore.rows.results import RowsChanged
from blockstore.table import Table

ARROW = "arrow"
"""The form of an upload that is an Arrow stream."""

_Found = TypeVar("_Found")


class Mode(StrEnum):
    """What is done with the rows."""

    APPEND = "append"
    """They are new. With a key, one that exists refuses all of them."""
    UPSERT = "upsert"
    """Each becomes the current one of its key."""
    REPLACE = "replace"
    """They come in the place of all rows."""


class ArrowRows:
    """The batches of a file, as often as they are read. ``before_end`` is called after the last
    one, before anything is committed. A client has made the file: every batch is validated, and
    reading raises Invalid for one that is damaged, or too large once it is decompressed or its
    values are written out."""

    def __init__(self, path: Path, meter: Meter, before_end: Callable[[], None]) -> None:
        self._path = path
        self._meter = meter
        self._before_end = before_end

    def __call__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches():
            for piece in pieces(batch):
                self._meter.check()
                yield piece
                self._meter.advance(rows=piece.num_rows, size=piece.nbytes)
        self._before_end()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        # Mapped: a batch may be as large as the file.
        with pa.memory_map(str(self._path)) as file:
            check_sizes(file)
            file.seek(0)
            stream = _read(lambda: _opened(file))
            while (batch := _read(lambda: _next(stream))) is not None:
                yield batch


def _opened(file: pa.NativeFile) -> pa.RecordBatchReader:
    stream = pa.ipc.open_stream(file)
    stream.schema.names  # noqa: B018 - raises for one that is not UTF-8
    return stream


def _next(stream: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        batch = stream.read_next_batch()
    except StopIteration:
        return None
    batch.validate(full=True)
    return batch


def _read(read: Callable[[], _Found]) -> _Found:
    try:
        return read()
    except (pa.ArrowException, OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the machine: Arrow's own error about a stream cut short has no number
        raise Invalid(f"the rows are not an Arrow stream, or it is damaged ({error})") from error


def applied(
    table: Table, rows: ArrowRows, mode: Mode, job: Job, message: str
) -> RowsChanged | Changed | Writer:
    """Do with the rows what the mode says, as one version. An append is a ``Writer`` whose block is
    not finished yet. Raises Invalid and RowConflict."""
    access = access_of(table)
    identity = table.definition.identity
    said = Said(job=job, message=message, buffer_bytes=BUFFER_BYTES)
    if mode is Mode.UPSERT:
        return upsert(access, rows, said)
    if mode is Mode.REPLACE:
        if identity is not None:
            return overwrite_rows(access, rows, None, said)
        return overwrite(access, rows(), job=job, message=message, producer="gateway")
    if isinstance(identity, Key):
        return insert(access, rows, said)
    options = WriteOptions(job=job, producer="gateway", message=message, buffer_bytes=BUFFER_BYTES)
    writer = Writer(table.bucket, table.world, table.log, table.definition, options)
    try:
        for batch in rows():
            writer.write(batch)
    except BaseException:
        writer.abort()
        raise
    return writer


def replaced(did: Changed) -> Ended:
    """What an overwrite wrote, as a job reports it."""
    return Ended(
        written={
            "ulid": did.added[0] if did.added else None,
            "version": did.version,
            "rows": None if did.already else did.rows_added,
            "bytes": did.bytes_added,
        }
    )
