"""CSV and TSV files: fast while every value is valid, exact about the first one that is not.

Rules: the first line has the names of the columns, exactly those of the table, in any order; one
that has a default may be left out, and is then left out of the rows too. An empty field is null. A
quoted empty field is an empty text, or zero bytes, and null in a column of any other type. Bytes
are base64. A row has at most 4 MiB. pyarrow's parser reads the file, and ``text_values`` converts
its values. After an error a slower parser, which knows lines, reads it again: the error has line,
column and value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from blockstore.cli.files.bad_lines import MOST, BadLine, BadRow, refusal
from blockstore.cli.files.numbered import (
    BLOCK,
    OTHERS,
    misquoted,
    numbered,
    separated,
    too_long,
)
from blockstore.cli.files.opening import Advance, opened_text
from blockstore.cli.files.quotes import Checked, Misquoted
from blockstore.cli.files.text_values import (
    all_bad,
    converted,
    converts,
    expected,
    is_plain,
    remedy,
)
from blockstore.cli.schema_text import type_name
from blockstore.errors import Invalid
from blockstore.format.casting import other_case
from blockstore.format.column import rules_of
from blockstore.format.fields import required

_SAMPLE = 16 << 20
_ROWS = 4_096
_SHOWN = 60
_LOOKED = 1_000_000
"""So many rows after the first wrong one are looked at."""


def read(
    path: str,
    name: str,
    schema: pa.Schema,
    *,
    delimiter: str,
    nulls: tuple[str, ...],
    advance: Advance,
) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows under ``schema``.

    Raises Invalid with file, line, column, value and what was expected.
    """
    for field in schema:
        if not is_plain(field.type):
            raise Invalid(
                f"{name}: column {field.name!r} is a {type_name(field.type)}, which CSV cannot "
                "contain: use JSON lines, Parquet or Arrow"
            )
    lines = numbered(path, name, delimiter)
    header = _header(lines, name)
    _check_header(header, name, delimiter, schema)
    if next(lines, None) is None:
        return
    schema = pa.schema([field for field in schema if field.name in header])
    nulls = ("", *nulls)
    options = pacsv.ConvertOptions(
        column_types={field.name: pa.string() for field in schema},
        include_columns=schema.names,
        null_values=nulls,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        with opened_text(path, advance) as stream:
            reader = pacsv.open_csv(
                Checked(stream, delimiter),
                read_options=pacsv.ReadOptions(block_size=BLOCK),
                parse_options=_parsing(delimiter, len(schema)),
                convert_options=options,
            )
            for batch in reader:
                columns = [
                    _values(column, field.type, nulls)
                    for column, field in zip(batch.columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, names=schema.names)
    except (pa.ArrowException, Misquoted) as error:
        _explain(path, name, schema, delimiter, nulls)
        raise Invalid(
            f"{name} cannot be read ({str(error).partition(chr(10))[0]}): fix the file"
        ) from error


def header_of(path: str, name: str, *, delimiter: str) -> list[str]:
    """Return the names in the first line. Raises Invalid for a file without one."""
    return _header(numbered(path, name, delimiter), name)


def schema_of(path: str, name: str, *, delimiter: str) -> pa.Schema:
    """Return the types that the first megabytes suggest: integers, doubles, times, or strings."""
    lines = numbered(path, name, delimiter)
    header = _header(lines, name)
    check_delimiter(header, name, delimiter)
    if next(lines, None) is None:
        return pa.schema([pa.field(column, pa.string()) for column in header])
    try:
        sample = _sample(path, delimiter, len(header), {})
        if any(pa.types.is_binary(field.type) for field in sample.schema):
            # Text that is not UTF-8: this raises an error with its line.
            deque(numbered(path, name, delimiter), maxlen=0)
        texts = _sample(path, delimiter, len(header), dict.fromkeys(header, pa.string()))
        return pa.schema(
            [
                pa.field(field.name, _suggested(field.type, fields))
                for field, fields in zip(sample.schema, texts.columns, strict=True)
            ]
        )
    except (pa.ArrowException, Misquoted):
        if fault := misquoted(path, name, delimiter, header):
            raise fault from None
        plain = pa.schema([pa.field(column, pa.string()) for column in dict.fromkeys(header)])
        _explain(path, name, plain, delimiter, ("",))
        raise


def _sample(
    path: str, delimiter: str, columns: int, types: dict[str, pa.DataType]
) -> pa.RecordBatch:
    """The rows of the first megabytes, of these types or of those that Arrow suggests."""
    with opened_text(path) as stream:
        reader = pacsv.open_csv(
            Checked(stream, delimiter),
            read_options=pacsv.ReadOptions(block_size=_SAMPLE),
            parse_options=_parsing(delimiter, columns),
            convert_options=pacsv.ConvertOptions(
                column_types=types,
                null_values=[""],
                strings_can_be_null=bool(types),
                quoted_strings_can_be_null=False,
            ),
        )
        return reader.read_next_batch()


def _suggested(kind: pa.DataType, fields: pa.Array) -> pa.DataType:
    """The type for a column of which Arrow says ``kind``: it also takes 0x1F for a number."""
    if pa.types.is_null(kind):
        return pa.string()
    micros = [pa.timestamp("us", kind.tz)] if pa.types.is_timestamp(kind) else []
    return next((one for one in (*micros, kind) if _takes(one, fields)), pa.string())


def _takes(kind: pa.DataType, fields: pa.Array) -> bool:
    """Whether a column of the table takes these fields."""
    return converts(_bare(fields, kind, ("",)), kind)


def _parsing(delimiter: str, columns: int) -> pacsv.ParseOptions:
    # With one column an empty line is a null.
    return pacsv.ParseOptions(
        delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=columns != 1
    )


def _values(fields: pa.Array, kind: pa.DataType, nulls: tuple[str, ...]) -> pa.Array:
    """Convert fields to values of ``kind``."""
    return fields if pa.types.is_string(kind) else converted(_bare(fields, kind, nulls), kind)


def _bare(fields: pa.Array, kind: pa.DataType, nulls: tuple[str, ...]) -> pa.Array:
    """Return fields of a column that is not text, with nulls, and without spaces around values.

    A quoted null is null too. But for bytes a quoted empty field is a value: zero bytes.
    """
    null_also_quoted = [null for null in nulls if null or not pa.types.is_binary(kind)]
    fields = pc.if_else(pc.is_in(fields, pa.array(null_also_quoted, fields.type)), None, fields)
    return pc.ascii_trim(fields, " \t")


def _header(lines: Iterator[tuple[int, list[str]]], name: str) -> list[str]:
    for _, header in lines:
        return header
    raise Invalid(f"{name} is empty, expected a first line with the names of the columns")


def check_delimiter(header: list[str], name: str, delimiter: str) -> None:
    """Refuse a header of one name that contains another delimiter."""
    found = next((one for one in OTHERS if one in header[0] and one != delimiter), None)
    if len(header) == 1 and found is not None:
        raise separated(name, header[0], found, delimiter)


def _check_header(header: list[str], name: str, delimiter: str, schema: pa.Schema) -> None:
    if header != schema.names:
        check_delimiter(header, name, delimiter)
    twice = sorted({column for column in header if header.count(column) > 1})
    missing = [
        field.name
        for field in schema
        if field.name not in header and rules_of(field).default is None
    ]
    extra = [column for column in header if column not in schema.names]
    if twice:
        problem, remedy = f"names {_list(twice)} twice", "rename or drop one of the two"
    elif missing:
        problem = f"lacks {_list(missing)}" + (f" and names {_list(extra)}" if extra else "")
        remedy = other_case(extra, schema.names) or "add it to the file, with empty fields for null"
    elif extra:
        problem = f"names {_list(extra)}, which the table lacks"
        remedy = "rename or drop columns of the file, or add them to the table with alter"
    else:
        return
    raise BadRow(
        f"{name}, line 1: the header {problem}, expected the table's columns "
        f"({_list(schema.names)}) in any order: {remedy}; nothing was written",
        line=1,
        rule=f"the header names the table's columns ({_list(schema.names)}) in any order, and "
        f"{problem}",
    )


def _explain(
    path: str, name: str, schema: pa.Schema, delimiter: str, nulls: tuple[str, ...]
) -> None:
    """Raise Invalid for the wrong lines; return if the slower parser finds none."""
    lines = numbered(path, name, delimiter)
    _, header = next(lines)
    long: int | None = None
    bad: list[BadLine] = []
    looked = 0
    while len(bad) < MOST and looked < _LOOKED:
        rows, fault = _some(lines)
        bad += _bad_lines(rows, header, schema, nulls)
        long = long or next(
            (line for line, row in rows if len("".join(row).encode()) > BLOCK), None
        )
        if fault is not None and not bad:
            raise fault
        if fault is not None or not rows:
            break
        looked += len(rows) if bad else 0
    if bad:
        raise refusal(name, bad[:MOST])
    if long is not None:
        raise too_long(name, long)


def _some(
    lines: Iterator[tuple[int, list[str]]],
) -> tuple[list[tuple[int, list[str]]], Invalid | None]:
    """Return the next rows, and what is wrong with the line after them."""
    rows: list[tuple[int, list[str]]] = []
    try:
        rows.extend(islice(lines, _ROWS))
    except Invalid as fault:
        return rows, fault
    return rows, None


def _bad_lines(
    rows: list[tuple[int, list[str]]],
    header: list[str],
    schema: pa.Schema,
    nulls: tuple[str, ...],
) -> list[BadLine]:
    """The wrong lines among some rows: a wrong number of fields, or wrong values."""
    bad = [
        BadLine(
            line=line,
            rule=f"{len(header)} fields as in the header, found {len(row)}",
            says=f"{len(row)} fields, expected {len(header)} as in the header",
            remedy="fix the line",
        )
        for line, row in rows
        if len(row) != len(header)
    ]
    whole = [one for one in rows if len(one[1]) == len(header)]
    not_null = set(required(schema))
    for place, column in enumerate(header):
        field = schema.field(column)
        if pa.types.is_string(field.type):
            continue
        texts = _bare(pa.array([row[place] for _, row in whole], pa.string()), field.type, nulls)
        places = all_bad(texts, field.type, MOST)
        if column in not_null and texts.null_count:
            places += pc.indices_nonzero(texts.is_null()).to_pylist()[:MOST]
        bad += [_bad_value(whole[at][0], field, whole[at][1][place]) for at in places]
    return sorted(bad, key=lambda one: one.line)


def _bad_value(line: int, field: pa.Field, value: str) -> BadLine:
    shown = value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
    rule = expected(field.type)
    says = f"column {field.name!r} is {shown!r}, expected {rule}"
    return BadLine(
        line=line,
        rule=rule,
        says=says,
        column=field.name,
        value=shown,
        remedy=remedy(value.strip(" \t"), field.type),
    )


def _list(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
