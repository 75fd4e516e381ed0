"""CSV and TSV files: fast while every value is good, exact about the first one that is not.

Rules: the first line names the columns; they are exactly the table's, in any order. An empty field is null; a quoted
empty one is an empty string. A file is read by pyarrow's parser, and after an error once more by a slower one that
knows the line: the error names line, column and value.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn, TextIO

import pyarrow as pa
import pyarrow.csv as pacsv

from blockstore.cli.files.opening import Advance, opened
from blockstore.cli.files.text_values import converted, first_bad, is_plain
from blockstore.cli.schema_text import type_name
from blockstore.errors import Invalid
from blockstore.format.fields import required

__all__ = ["BadRow", "read", "schema_of"]

_BLOCK = 4 << 20
_SAMPLE = 16 << 20
_ROWS = 4_096
_SHOWN = 60


class BadRow(Invalid):
    """A line that is wrong, also in parts, for a program: ``column`` and ``value`` are None where the line as a whole is."""

    def __init__(
        self, message: str, *, line: int, rule: str, column: str | None = None, value: str | None = None
    ) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.value = value
        self.rule = rule


def read(
    path: str,
    name: str,
    schema: pa.Schema,
    *,
    delimiter: str,
    nulls: tuple[str, ...],
    advance: Advance,
) -> Iterator[pa.RecordBatch]:
    """The file's rows under ``schema``; Invalid names file, line, column, value and what was expected."""
    for field in schema:
        if not is_plain(field.type):
            raise Invalid(
                f"{name}: column {field.name!r} is a {type_name(field.type)}, which CSV cannot hold: "
                "write JSON lines, Parquet or Arrow"
            )
    _check_header(_header(path, name, delimiter), name, schema)
    as_text = {field.name for field in schema if _by_ourselves(field.type)}
    options = pacsv.ConvertOptions(
        column_types={field.name: pa.string() if field.name in as_text else field.type for field in schema},
        include_columns=schema.names,
        null_values=["", *nulls],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        with opened(path, advance) as stream:
            reader = pacsv.open_csv(
                stream,
                read_options=pacsv.ReadOptions(block_size=_BLOCK),
                parse_options=pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=options,
            )
            for batch in reader:
                yield _typed(batch, schema, as_text)
    except pa.ArrowException as error:
        _explain(path, name, schema, delimiter, ("", *nulls))
        raise Invalid(f"{name} cannot be read ({str(error).partition(chr(10))[0]}): mend the file") from error


def schema_of(path: str, name: str, *, delimiter: str) -> pa.Schema:
    """The types that the first megabytes suggest: whole numbers, decimals as double, times, else strings."""
    _header(path, name, delimiter)
    with opened(path) as stream:
        reader = pacsv.open_csv(
            stream,
            read_options=pacsv.ReadOptions(block_size=_SAMPLE),
            parse_options=pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(null_values=[""], quoted_strings_can_be_null=False),
        )
        return pa.schema([pa.field(field.name, _suggested(field.type)) for field in reader.schema])


def _suggested(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return kind


def _by_ourselves(kind: pa.DataType) -> bool:
    """Types whose texts pyarrow's CSV reader takes more narrowly than ``text_values``."""
    return pa.types.is_duration(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None)


def _typed(batch: pa.RecordBatch, schema: pa.Schema, as_text: set[str]) -> pa.RecordBatch:
    if not as_text:
        return batch
    columns = [
        converted(column, field.type) if field.name in as_text else column
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


@contextmanager
def _text(path: str) -> Iterator[TextIO]:
    with opened(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        yield text


def _header(path: str, name: str, delimiter: str) -> list[str]:
    with _text(path) as text:
        try:
            return next(csv.reader(text, delimiter=delimiter))
        except StopIteration:
            raise Invalid(f"{name} is empty, expected a first line with the columns' names") from None
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            found = error.object[error.start]
            raise Invalid(
                f"{name}, line {line}: the byte 0x{found:02x} is no UTF-8, expected UTF-8 text: convert the file"
            ) from None
        except csv.Error as error:
            raise Invalid(f"{name}, line 1: {error}, expected CSV: mend the line") from None


def _check_header(header: list[str], name: str, schema: pa.Schema) -> None:
    twice = sorted({column for column in header if header.count(column) > 1})
    missing = [column for column in schema.names if column not in header]
    extra = [column for column in header if column not in schema.names]
    if twice:
        problem, remedy = f"names {_list(twice)} twice", "rename or drop one of the two"
    elif missing:
        problem, remedy = f"lacks {_list(missing)}", "add it to the file, with empty fields for null"
    elif extra:
        problem = f"names {_list(extra)}, which the table lacks"
        remedy = "rename or drop columns of the file, or add them to the table with alter"
    else:
        return
    raise BadRow(
        f"{name}, line 1: the header {problem}, expected the table's columns ({_list(schema.names)}) in any order: "
        f"{remedy}; nothing was written",
        line=1,
        rule=f"the header names the table's columns ({_list(schema.names)}) in any order, and {problem}",
    )


def _explain(path: str, name: str, schema: pa.Schema, delimiter: str, nulls: tuple[str, ...]) -> None:
    """Raise Invalid for the first line that is wrong; return if the slower parser finds none."""
    with _text(path) as text:
        reader = csv.reader(text, delimiter=delimiter)
        try:
            header = next(reader)
            rows: list[list[str]] = []
            lines: list[int] = []
            before = reader.line_num
            for row in reader:
                if row:
                    rows.append(row)
                    lines.append(before + 1)
                before = reader.line_num
                if len(rows) == _ROWS:
                    _check_rows(rows, lines, header, name, schema, nulls)
                    rows, lines = [], []
            _check_rows(rows, lines, header, name, schema, nulls)
        except UnicodeDecodeError as error:
            raise Invalid(
                f"{name}, after line {reader.line_num}: {error.reason}, expected UTF-8: convert the file"
            ) from None
        except csv.Error as error:
            raise BadRow(
                f"{name}, line {reader.line_num}: {error}, expected CSV: mend the line",
                line=reader.line_num,
                rule=str(error),
            ) from None


def _check_rows(
    rows: list[list[str]],
    lines: list[int],
    header: list[str],
    name: str,
    schema: pa.Schema,
    nulls: tuple[str, ...],
) -> None:
    """Raise Invalid for the first bad row: a wrong number of fields, or a value that is none of its column's type."""
    whole = next((place for place, row in enumerate(rows) if len(row) != len(header)), len(rows))
    bad: tuple[int, pa.Field] | None = None
    not_null = set(required(schema))
    for place, column in enumerate(header):
        field = schema.field(column)
        values = [row[place] for row in rows[:whole]]
        texts = pa.array([None if value in nulls else value for value in values], pa.string())
        found = first_bad(texts, field.type)
        if found is None and column in not_null and texts.null_count and not pa.types.is_string(field.type):
            found = texts.is_null().index(True).as_py()
        if found is not None and (bad is None or found < bad[0]):
            bad = (found, field)
    if bad is not None:
        at, field = bad
        _refuse(name, lines[at], field, rows[at][header.index(field.name)])
    if whole < len(rows):
        raise BadRow(
            f"{name}, line {lines[whole]}: {len(rows[whole])} fields, expected {len(header)} as in the header: "
            "mend the line; nothing was written",
            line=lines[whole],
            rule=f"{len(header)} fields as in the header, found {len(rows[whole])}",
        )


def _refuse(name: str, line: int, field: pa.Field, value: str) -> NoReturn:
    shown = value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
    raise BadRow(
        f"{name}, line {line}: column {field.name!r} is {shown!r}, expected {type_name(field.type)}: "
        "mend the value; nothing was written",
        line=line,
        column=field.name,
        value=shown,
        rule=type_name(field.type),
    )


def _list(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
