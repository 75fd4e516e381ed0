"""A result as bytes, piece by piece: the head of its form, its rows batch by batch, and its end.

Rules: what a form cannot write is reported before the first piece where the schema shows it. A
piece holds a bounded number of rows, so memory does not grow with the result; the end of the form
is written only after the last row.
"""

from __future__ import annotations

import base64
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from enum import StrEnum

import orjson
import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.reader.forms.text import is_shown_as_text, readable

_ROWS = 8_192
"""Rows of a piece of text."""

CANNOT_WRITE = (pa.ArrowException, orjson.JSONEncodeError, OverflowError)
"""What an encoder raises where its form cannot hold a value or a type; OverflowError is for a date
inside a union that Python does not have."""


class Unwritable(Invalid):
    """The form cannot hold a value or a type of the result."""

    def __init__(self, form: str, error: Exception) -> None:
        super().__init__(
            f"the result cannot be written as {form} ({' '.join(str(error).split())}): use arrow, "
            "or cast the columns"
        )


class Form(StrEnum):
    """How a result is written."""

    ARROW = "arrow"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"


def pieces(
    form: Form, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, long_as_text: bool = False
) -> Iterator[bytes]:
    """The bytes of a result. ``long_as_text``: in JSON, numbers of types with more digits than a
    double has are texts. Raises Invalid; before the first piece where the form cannot hold the
    columns."""
    try:
        encoder = _Json(schema, long=True) if long_as_text else _ENCODERS[form](schema)
        first = encoder.take()
        if first:
            yield first
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS):
                encoder.write(batch.slice(start, _ROWS))
                piece = encoder.take()
                if piece:
                    yield piece
        yield encoder.end()
    except CANNOT_WRITE as error:
        raise Unwritable(form, error) from error


class _Encoder(ABC):
    """One form. ``take`` returns what was written since the last call."""

    def __init__(self, schema: pa.Schema) -> None:
        self._out = io.BytesIO()
        self._schema = schema

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None: ...

    @abstractmethod
    def end(self) -> bytes:
        """What follows the last row."""

    def take(self) -> bytes:
        data = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return data


class _Objects(_Encoder):
    """One object a row. Times are ISO texts, bytes are base64, NaN and infinity are null."""

    def __init__(self, schema: pa.Schema, *, long: bool = False) -> None:
        super().__init__(schema)
        self._long = long
        names = schema.names
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise Invalid(
                f"the result has two columns {twice!r}, and a JSON object can hold only one: give "
                "one of them an alias"
            )

    def _objects(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        columns = [readable(column, long=self._long) for column in batch.columns]
        texts = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        for row in texts.to_pylist():
            yield orjson.dumps(row, default=json_value, option=orjson.OPT_UTC_Z)


class _Json(_Objects):
    """One array of all rows."""

    _separator = b"["

    def write(self, batch: pa.RecordBatch) -> None:
        for row in self._objects(batch):
            self._out.write(self._separator + b"\n" + row)
            self._separator = b","

    def end(self) -> bytes:
        return b"[]\n" if self._separator == b"[" else b"\n]\n"


class _Lines(_Objects):
    """One line a row."""

    def write(self, batch: pa.RecordBatch) -> None:
        for row in self._objects(batch):
            self._out.write(row + b"\n")

    def end(self) -> bytes:
        return b""


class _Delimited(_Encoder):
    def __init__(self, schema: pa.Schema, delimiter: str) -> None:
        import pyarrow.csv as pacsv

        super().__init__(schema)
        self._flat = pa.schema([pa.field(field.name, _flat_type(field.type)) for field in schema])
        options = pacsv.WriteOptions(delimiter=delimiter)
        self._writer = pacsv.CSVWriter(self._out, self._flat, write_options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [_flat(column) for column in batch.columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._flat))

    def end(self) -> bytes:
        self._writer.close()
        return self.take()


class _Csv(_Delimited):
    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema, ",")


class _Tsv(_Delimited):
    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema, "\t")


class _Arrow(_Encoder):
    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema)
        self._writer = pa.ipc.new_stream(self._out, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def end(self) -> bytes:
        self._writer.close()
        return self.take()


class _Growing(io.RawIOBase):
    """A buffer that can be emptied while its writer still counts its position."""

    def __init__(self, out: io.BytesIO) -> None:
        self._out = out
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: object, /) -> int:
        size = self._out.write(data)  # type: ignore[arg-type]
        self._at += size
        return size


class _Parquet(_Encoder):
    """One row group per several pieces: many small groups make a file large and slow to read."""

    def __init__(self, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        super().__init__(schema)
        self._file = _Growing(self._out)
        self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")
        self._held: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._rows += batch.num_rows
        if self._rows >= _ROWS * 16:
            self._flush()

    def end(self) -> bytes:
        self._flush()
        self._writer.close()
        return self.take()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held, self._schema))
        self._held, self._rows = [], 0


_ENCODERS: dict[Form, Callable[[pa.Schema], _Encoder]] = {
    Form.ARROW: _Arrow,
    Form.JSON: _Json,
    Form.NDJSON: _Lines,
    Form.CSV: _Csv,
    Form.TSV: _Tsv,
    Form.PARQUET: _Parquet,
}


def json_value(value: object) -> object:
    """A value that orjson does not know, as JSON has it."""
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f").encode()) if value.is_finite() else None
    if isinstance(value, bytes):
        return _base64(value)
    return str(value)


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _flat_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column of this type in CSV."""
    return (
        pa.string()
        if pa.types.is_nested(kind) or is_shown_as_text(kind) or _is_bytes(kind)
        else kind
    )


def _flat(column: pa.Array) -> pa.Array:
    """A column as CSV can hold it: nested values as JSON, bytes as base64."""
    if _is_bytes(column.type):
        return pa.array(
            [None if value is None else _base64(value) for value in column.to_pylist()], pa.string()
        )
    if pa.types.is_nested(column.type):
        texts = [
            None
            if value is None
            else orjson.dumps(value, default=json_value, option=orjson.OPT_UTC_Z).decode()
            for value in readable(column).to_pylist()
        ]
        return pa.array(texts, pa.string())
    return readable(column)
