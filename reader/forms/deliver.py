"""A result on the command line: a table for people, or bytes to standard output or a file.

Rules: batches are written as they arrive, so memory does not grow with the result; only a table for
people is cut off, and then it says so. A file appears only when it is complete; its name says
whether it is compressed.
"""

from __future__ import annotations

import os
import sys

import orjson
import pyarrow as pa

from blockstore.cli.output import Column, show_table
from blockstore.errors import Invalid
from blockstore.reader.forms.encode import CANNOT_WRITE, Form, Unwritable, json_value, pieces
from blockstore.reader.forms.text import readable
from blockstore.world import World

_SHOWN_ROWS = 1_000
_SHOWN_TEXT = 120
ALL_ROWS = "use -o csv, tsv, json, parquet or arrow for all"
"""How a person gets the rows that a table leaves out."""


def deliver(
    result: pa.RecordBatchReader, form: str, to: str | None, *, more: str = ALL_ROWS
) -> None:
    """Write the result to standard output, or to the file ``to``; ``more`` says how to get the rows
    that a table leaves out. Raises Invalid."""
    if form == "table" and to is not None:
        raise Invalid(
            "a table for people cannot be written to a file: use -o csv, tsv, json, parquet or "
            "arrow"
        )
    if to is None and form in ("parquet", "arrow") and sys.stdout.isatty():
        raise Invalid(
            f"{form} is binary and standard output is a terminal: redirect it, or use --to FILE"
        )
    if form == "table":
        try:
            _show(result, more)
        except CANNOT_WRITE as error:
            raise Unwritable(form, error) from error
        return
    if to is not None:
        _write_file(result, Form(form), to)
        return
    sys.stdout.flush()
    for piece in pieces(Form(form), result.schema, result):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _write_file(result: pa.RecordBatchReader, form: Form, to: str) -> None:
    from blockstore.cli.files.opening import packing
    from blockstore.client.atomic_file import atomic_file

    try:
        with (
            atomic_file(to, World.real().ids) as file,
            packing(file, to, parquet=form is Form.PARQUET) as out,
        ):
            for piece in pieces(form, result.schema, result):
                out.write(piece)
    except OSError as error:
        if error.errno is None:
            raise
        raise Invalid(
            f"{to} cannot be written ({os.strerror(error.errno)}), and no file was made: free "
            "space, or name a file in an existing folder that you may write to"
        ) from error


def _show(result: pa.RecordBatchReader, rest: str) -> None:
    rows: list[dict[str, str]] = []
    more = False
    keys = [str(place) for place in range(len(result.schema))]
    for batch in result:
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
        for key, field in zip(keys, result.schema, strict=True)
    ]
    show_table(columns_shown, rows)
    if more:
        sys.stderr.write(f"the first {_SHOWN_ROWS:,} rows are shown: {rest}\n")


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    """Whether a value may continue on the next line: a broken number or time is misread."""
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
