"""Parquet and Arrow files: they have their own types, which the table casts as in any append."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.cli.files.forms import Form
from blockstore.cli.files.opening import Advance, opened
from blockstore.format.int96 import UNIT, check_int96
from blockstore.format.layout import check_layout

_ROWS = 131_072


def read(path: str, name: str, form: Form, *, advance: Advance) -> Iterator[pa.RecordBatch]:
    """Yield the file's batches in order. Pages of Parquet that have a checksum are checked by it,
    and batches of Arrow are whole; raises what Arrow raises, and Invalid, with the file's name, for
    a moment that cannot be read as it is."""
    if form is Form.PARQUET:
        check_int96(name, lambda unit: _parquet(path, unit))
        with _parquet(path) as file:
            for group in range(file.num_row_groups):
                yield from file.iter_batches(batch_size=_ROWS, row_groups=[group])
                advance(_packed(file.metadata.row_group(group)))
        return
    with _arrow(path, advance) as reader:
        for batch in reader:
            check_layout(batch)
            yield batch


def schema_of(path: str, form: Form) -> pa.Schema:
    """Return the schema that the file declares."""
    if form is Form.PARQUET:
        with _parquet(path) as file:
            return file.schema_arrow
    with _arrow(path, lambda _: None) as reader:
        return reader.schema


def _parquet(path: str, unit: str = UNIT) -> pq.ParquetFile:
    return pq.ParquetFile(path, page_checksum_verification=True, coerce_int96_timestamp_unit=unit)


def _packed(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(index).total_compressed_size for index in range(group.num_columns))


@contextmanager
def _arrow(path: str, advance: Advance) -> Iterator[pa.RecordBatchReader]:
    """Open an Arrow IPC file (Feather), which begins with magic bytes, or an IPC stream."""
    with opened(path) as source:
        is_file = source.read(6) == b"ARROW1"
    with opened(path, advance) as source:
        if is_file:
            file = pa.ipc.open_file(source if source.seekable() else pa.BufferReader(source.read()))
            batches = (file.get_batch(index) for index in range(file.num_record_batches))
            reader = pa.RecordBatchReader.from_batches(file.schema, batches)
        else:
            reader = pa.ipc.open_stream(source)
        reader.schema.names  # noqa: B018 - raises for one that is not UTF-8
        yield reader
