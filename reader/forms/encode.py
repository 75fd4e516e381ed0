"""An answer as bytes, piece by piece: each form's head, its rows batch by batch, and its end.

Rules: what cannot be written is said before the first piece. A piece holds a bounded number of
rows, so memory does not grow with the answer; the form's end is written only after the last row
came.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import orjson
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from blockstore.errors import Invalid
from blockstore.reader.forms.deliver import CANNOT_WRITE, flat, flat_type, json_value, unwritable
from blockstore.reader.forms.text import readable

_ROWS = 8_192
"""Rows of a piece of text."""


class Form(StrEnum):
    """How an answer is written."""

    ARROW = "arrow"
    JSON = "json"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"

    @property
    def media_type(self) -> str:
        """Its name in Accept and Content-Type."""
        return _MEDIA[self]


_MEDIA = {
    Form.ARROW: "application/vnd.apache.arrow.stream",
    Form.JSON: "application/json",
    Form.CSV: "text/csv",
    Form.TSV: "text/tab-separated-values",
    Form.PARQUET: "application/vnd.apache.parquet",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A form, and how its numbers are written."""

    form: Form
    long_as_text: bool = False
    """In JSON: numbers of types with more digits than a double has are texts."""

    @property
    def media_type(self) -> str:
        """Its name in Content-Type."""
        return f"{self.form.media_type};numbers=text" if self.long_as_text else self.form.media_type


def pieces(
    form: Form, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, long_as_text: bool = False
) -> Iterator[bytes]:
    """The answer's bytes.

    Raises Invalid before the first piece where the form cannot hold the columns.
    """
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
        raise unwritable(form, error) from error


class _Encoder(ABC):
    """One form. ``take`` hands over what was written since."""

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


class _Json(_Encoder):
    def __init__(self, schema: pa.Schema, *, long: bool = False) -> None:
        super().__init__(schema)
        self._long = long
        names = schema.names
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise Invalid(
                f"the answer has two columns {twice!r}, which one JSON object cannot hold: give "
                "one an alias"
            )
        self._separator = b"["

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [readable(column, long=self._long) for column in batch.columns]
        texts = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        for row in texts.to_pylist():
            self._out.write(self._separator)
            self._out.write(b"\n")
            self._out.write(orjson.dumps(row, default=json_value, option=orjson.OPT_UTC_Z))
            self._separator = b","

    def end(self) -> bytes:
        return b"[]\n" if self._separator == b"[" else b"\n]\n"


class _Delimited(_Encoder):
    def __init__(self, schema: pa.Schema, delimiter: str) -> None:
        super().__init__(schema)
        self._flat = pa.schema([pa.field(field.name, flat_type(field.type)) for field in schema])
        options = pacsv.WriteOptions(delimiter=delimiter)
        self._writer = pacsv.CSVWriter(self._out, self._flat, write_options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [flat(column) for column in batch.columns]
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
    """Bytes that are taken while a writer still counts where it is."""

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
    """A row group a few pieces: many small ones would make the file large and slow to read."""

    def __init__(self, schema: pa.Schema) -> None:
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
    Form.CSV: _Csv,
    Form.TSV: _Tsv,
    Form.PARQUET: _Parquet,
}
