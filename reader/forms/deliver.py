"""An answer in the form that was asked for: a table for people, CSV, TSV, JSON, Parquet or an Arrow
stream.

Rules: batches are written as they come, so memory does not grow with the answer; only a table for
people is cut, and then says so. A file appears only when it is whole.
"""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import BinaryIO

import orjson
import pyarrow as pa

from blockstore.cli.output import Column, show_table
from blockstore.errors import Invalid
from blockstore.reader.forms.text import is_told, readable
from blockstore.world import World

CANNOT_WRITE = (pa.ArrowException, orjson.JSONEncodeError, OverflowError)
"""What is raised where a form has no way to write a value or a type; the last one for a date in a
union that Python has not."""

_SHOWN_ROWS = 1_000
_SHOWN_TEXT = 120


def deliver(answer: pa.RecordBatchReader, form: str, to: str | None) -> None:
    """Write the answer to standard output, or to the file ``to``."""
    if form == "table" and to is not None:
        raise Invalid(
            "a table for people is not written to a file: say -o csv, tsv, json, parquet or arrow"
        )
    if to is None and form in ("parquet", "arrow") and sys.stdout.isatty():
        raise Invalid(
            f"{form} is not text: send standard output to a file or a pipe, or say --to FILE"
        )
    try:
        if form == "table":
            _show(answer)
            return
        if to is not None:
            _write_file(answer, FORMS[form], to)
            return
        sys.stdout.flush()
        FORMS[form](answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except CANNOT_WRITE as error:
        raise unwritable(form, error) from error


def unwritable(form: str, error: Exception) -> Invalid:
    """What to say where the form has no way to write a value or a type of the answer."""
    return Invalid(
        f"the answer cannot be written as {form} ({' '.join(str(error).split())}): ask for arrow, "
        "or cast the columns"
    )


def write_json(answer: pa.RecordBatchReader, out: BinaryIO) -> None:
    """One JSON array, an object a row.

    Times are ISO texts, binary is base64, NaN and infinity are null.
    """
    names = answer.schema.names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Invalid(
            f"the answer has two columns {twice!r}, which one JSON object cannot hold: give one "
            "an alias"
        )
    separator = b"["
    for batch in answer:
        texts = pa.RecordBatch.from_arrays(
            [readable(column) for column in batch.columns], names=names
        )
        for row in texts.to_pylist():
            out.write(
                separator + b"\n" + orjson.dumps(row, default=json_value, option=orjson.OPT_UTC_Z)
            )
            separator = b","
    out.write(b"[]\n" if separator == b"[" else b"\n]\n")


def _csv(delimiter: str) -> Callable[[pa.RecordBatchReader, BinaryIO], None]:
    def write(answer: pa.RecordBatchReader, out: BinaryIO) -> None:
        import pyarrow.csv as pacsv

        fields = [pa.field(field.name, flat_type(field.type)) for field in answer.schema]
        options = pacsv.WriteOptions(delimiter=delimiter)
        with pacsv.CSVWriter(out, pa.schema(fields), write_options=options) as writer:
            for batch in answer:
                columns = [flat(column) for column in batch.columns]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))

    return write


def _parquet(answer: pa.RecordBatchReader, out: BinaryIO) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(out, answer.schema, compression="zstd") as writer:
        for batch in answer:
            writer.write_batch(batch)


def _arrow(answer: pa.RecordBatchReader, out: BinaryIO) -> None:
    with pa.ipc.new_stream(out, answer.schema) as writer:
        for batch in answer:
            writer.write_batch(batch)


FORMS: dict[str, Callable[[pa.RecordBatchReader, BinaryIO], None]] = {
    "csv": _csv(","),
    "tsv": _csv("\t"),
    "json": write_json,
    "parquet": _parquet,
    "arrow": _arrow,
}
"""How each form of an answer is written."""


def _write_file(
    answer: pa.RecordBatchReader, write: Callable[[pa.RecordBatchReader, BinaryIO], None], to: str
) -> None:
    from blockstore.client.atomic_file import whole_file

    try:
        with whole_file(to, World.real().ids) as out:
            write(answer, out)
    except OSError as error:
        if error.errno is None:
            raise
        raise Invalid(
            f"{to} cannot be written ({os.strerror(error.errno)}): make room or name a file in a "
            "folder that "
            "exists and may be written to; no file was made"
        ) from error


def _show(answer: pa.RecordBatchReader) -> None:
    rows: list[dict[str, str]] = []
    more = False
    keys = [str(place) for place in range(len(answer.schema))]
    for batch in answer:
        cut = batch.slice(0, _SHOWN_ROWS - len(rows))
        columns = [
            [_cell(value) for value in readable(column).to_pylist()] for column in cut.columns
        ]
        rows += [dict(zip(keys, values, strict=True)) for values in zip(*columns, strict=True)]
        if cut.num_rows < batch.num_rows:
            more = True
            break
    columns_shown = [
        Column(key, field.name, right=_is_number(field.type), fold=_is_text(field.type))
        for key, field in zip(keys, answer.schema, strict=True)
    ]
    show_table(columns_shown, rows)
    if more:
        sys.stderr.write(
            f"the first {_SHOWN_ROWS:,} rows are shown: say -o csv, tsv, json, parquet or arrow "
            "for all\n"
        )


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    """Whether its values may be broken over lines: a number or a time that is broken is misread."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_nested(kind)
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        value = orjson.dumps(value, default=json_value, option=orjson.OPT_UTC_Z).decode()
    text = str(value) if not isinstance(value, bytes) else value.hex()
    return text if len(text) <= _SHOWN_TEXT else text[:_SHOWN_TEXT] + "…"


def json_value(value: object) -> object:
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


def flat_type(kind: pa.DataType) -> pa.DataType:
    """The type of such a column in CSV."""
    return pa.string() if pa.types.is_nested(kind) or is_told(kind) or _is_bytes(kind) else kind


def flat(column: pa.Array) -> pa.Array:
    """A column as CSV can hold it: nested values as JSON, bytes as the base64 that they are in
    JSON."""
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
