"""JSON lines: one object in each line, with the table's columns as keys; a missing key is the
column's default, or null.

Rules: a value that does not have its column's type is refused with line, column and value; numbers
are exact (a decimal is never read as a float); times are ISO texts; binary is base64 text; a map is
an object or a list of pairs.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.json as pajson

from blockstore.cli.files.opening import Advance, opened
from blockstore.cli.files.text_values import converted, decimal, expected, is_bytes, unpacked
from blockstore.errors import Invalid
from blockstore.format.casting import other_case
from blockstore.format.column import rules_of
from blockstore.format.decimals import exactly

_ROWS = 16_384
_SAMPLE = 16 << 20
_TIMES = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
"""What texts may be, the narrowest first."""
_SHOWN = 60
_DIGITS = 20
"""No integer type has more digits."""
_BEYOND = {32: float.fromhex("0x1.ffffffp127"), 64: math.inf}
"""The smallest number that is too large for a float, by its width."""


def read(path: str, name: str, schema: pa.Schema, *, advance: Advance) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows under ``schema``.

    Raises Invalid with file, line, column, value and what was expected.
    """
    numbered = _numbered(path, name, advance)
    while lines := list(islice(numbered, _ROWS)):
        yield _batch(lines, name, schema)


def schema_of(path: str, name: str) -> pa.Schema:
    """Return the types that the first megabytes suggest. Texts that are all dates or times, as a
    column of them takes them, are these. Raises Invalid for a line that is no object."""
    rows = [_object(line, name, number) for number, line in _first(path, name)]
    with opened(path) as stream:
        reader = pajson.open_json(stream, read_options=pajson.ReadOptions(block_size=_SAMPLE))
        return pa.schema(
            [
                pa.field(field.name, _suggested(field.type, [row.get(field.name) for row in rows]))
                for field in reader.schema
            ]
        )


def _first(path: str, name: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of the first megabytes."""
    read = 0
    for number, line in _numbered(path, name, lambda _: None):
        yield number, line
        read += len(line)
        if read >= _SAMPLE:
            return


def _suggested(kind: pa.DataType, values: list[Any]) -> pa.DataType:
    """The type for values of which Arrow says ``kind``: it takes 2020-01-01T00:00:00Z for a time
    without a zone."""
    types = pa.types
    there = [value for value in values if value is not None]
    if types.is_struct(kind):
        return pa.struct(
            [
                pa.field(one.name, _suggested(one.type, [value.get(one.name) for value in there]))
                for one in kind.fields
            ]
        )
    if types.is_list(kind):
        return pa.list_(_suggested(kind.value_type, [item for value in there for item in value]))
    if types.is_null(kind):
        return pa.string()
    if types.is_string(kind) or types.is_timestamp(kind):
        return next((time for time in _TIMES if there and _holds(time, there)), pa.string())
    return kind


def _holds(kind: pa.DataType, values: list[Any]) -> bool:
    try:
        _array(values[:1], kind)
        _array(values, kind)
    except (ValueError, TypeError, pa.ArrowException):
        return False
    return True


def line_of_row(path: str, name: str, row: int) -> int:
    """Return the line of a row; lines count from 1, rows from 0."""
    return next(number for number, _ in islice(_numbered(path, name, lambda _: None), row, None))


def _numbered(path: str, name: str, advance: Advance) -> Iterator[tuple[int, str]]:
    """Yield the lines that are rows, each with its number, from 1."""
    with opened(path, advance) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig") as text:
        for number, line in enumerate(_decoded(text, name), start=1):
            if line.strip():
                yield number, line


def _decoded(text: io.TextIOWrapper, name: str) -> Iterator[str]:
    number = 0
    try:
        for line in text:
            number += 1
            yield line
    except UnicodeDecodeError as error:
        raise Invalid(
            f"{name}, after line {number}: {error.reason}, expected UTF-8: convert the file"
        ) from None


def _batch(lines: list[tuple[int, str]], name: str, schema: pa.Schema) -> pa.RecordBatch:
    rows = []
    for number, line in lines:
        rows.append((f"{name}, line {number}", _object(line, name, number)))
    return batch_of(rows, schema)


def batch_of(rows: Sequence[tuple[str, Mapping[str, Any]]], schema: pa.Schema) -> pa.RecordBatch:
    """Return parsed objects, each with the place that errors name, under ``schema``.

    Numbers with a fraction are decimals; a missing key is the column's default, or null. Raises
    Invalid with place, column, value and what was expected.
    """
    columns: dict[str, list[Any]] = {field.name: [] for field in schema}
    missing = {field.name: _default(field) for field in schema}
    for place, row in rows:
        extra = next((key for key in row if key not in columns), None)
        if extra is not None:
            remedy = other_case(row, schema.names) or "drop it, or add the column with alter"
            raise Invalid(
                f"{place}: key {extra!r} is not a column of the table "
                f"({', '.join(schema.names)}): {remedy}; nothing was written"
            )
        for key, values in columns.items():
            values.append(row.get(key, missing[key]))
    places = [place for place, _ in rows]
    arrays = [_column(field, columns[field.name], places) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _default(field: pa.Field) -> Any:
    """The default of a column as a line would have it."""
    text = rules_of(field).default
    return None if text is None else json.loads(text, parse_float=Decimal)


def _object(line: str, name: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line, parse_float=Decimal, object_pairs_hook=unique_keys)
    except RecursionError:
        raise Invalid(
            f"{name}, line {number}: lists or objects nested too deeply, expected one JSON object: "
            "fix the line; nothing was written"
        ) from None
    except (ValueError, ArithmeticError) as error:
        found = str(error)
        if isinstance(error, json.JSONDecodeError):
            found = f"{error.msg} at character {error.pos + 1}"
        elif isinstance(error, ArithmeticError):
            found = "a number too large for any type"
        raise Invalid(
            f"{name}, line {number}: {found}, expected one JSON object: fix the line; nothing was "
            "written"
        ) from None
    if not isinstance(row, dict):
        raise Invalid(
            f"{name}, line {number}: found {line.strip()[:_SHOWN]!r}, expected a JSON object; "
            "nothing was written"
        )
    return row


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its pairs. Raises ValueError for a key that is in it twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
        raise ValueError(f"key {twice!r} is in one object twice")
    return found


def _column(field: pa.Field, values: list[Any], places: Sequence[str]) -> pa.Array:
    try:
        return _array(values, field.type)
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        for place, value in zip(places, values, strict=True):
            try:
                _array([value], field.type)
            except (ValueError, TypeError, OverflowError, pa.ArrowException):
                _refuse(place, field, value)
        raise


def _refuse(place: str, field: pa.Field, value: Any) -> NoReturn:
    try:
        text = json.dumps(value, default=str)
    except RecursionError:
        # It could be read, but may be nested too deeply to be written.
        text = "lists or objects nested too deeply"
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    raise Invalid(
        f"{place}: column {field.name!r} is {shown}, expected {expected(field.type)}: "
        "fix the value; nothing was written"
    ) from None


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        if not all(value is None or isinstance(value, str) for value in values):
            raise ValueError("a text was expected")
        return converted(pa.array(values, pa.string()), kind)
    return pa.array([_value(value, kind) for value in values], kind)


def _value(value: Any, kind: pa.DataType) -> Any:
    """Return a JSON value in the form that pa.array takes for ``kind``.

    Raises ValueError or TypeError if it does not have that type.
    """
    types = pa.types
    if value is None:
        return None
    if types.is_boolean(kind):
        return _expect(value, bool)
    if types.is_string(kind):
        return _expect(value, str)
    if is_bytes(kind):
        return unpacked(_expect(value, str))
    if types.is_floating(kind):
        return _float(value, kind)
    if types.is_integer(kind) or types.is_duration(kind):
        number = _number(value)
        # Not converted if it is too large for any integer: int(1e999999999) would never end.
        if (isinstance(number, Decimal) and number.adjusted() > _DIGITS) or number != int(number):
            raise ValueError("a whole number was expected")
        return int(number)
    if types.is_decimal(kind):
        return exactly(kind)(decimal(value) if isinstance(value, str) else Decimal(_number(value)))
    if types.is_temporal(kind):
        # Converted by Arrow: Python's times only have microseconds.
        return converted(pa.array([_expect(value, str)]), kind)[0]
    if types.is_struct(kind):
        fields = {field.name: field.type for field in kind.fields}
        if set(_expect(value, dict)) - set(fields):
            raise ValueError("an unknown key")
        return {key: _value(value.get(key), own) for key, own in fields.items()}
    if types.is_map(kind):
        items = value.items() if isinstance(value, dict) else map(_pair, _expect(value, list))
        return [(_value(key, kind.key_type), _value(item, kind.item_type)) for key, item in items]
    if types.is_list(kind) or types.is_fixed_size_list(kind):
        return [_value(item, kind.value_type) for item in _expect(value, list)]
    raise ValueError(f"JSON cannot hold {kind}")


def _pair(value: Any) -> tuple[Any, Any]:
    """Return a key and its item. Only a list is a pair; a text of two would unpack too."""
    key, item = _expect(value, list)
    return key, item


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"a {kind.__name__} was expected")
    return value


def _number(value: Any) -> int | Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise TypeError("a number was expected")
    return value


def _float(value: Any, kind: pa.DataType) -> float:
    if isinstance(value, float) or value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    number = float(_number(value))
    if abs(number) >= _BEYOND[kind.bit_width]:
        raise ValueError(f"a number in the range of a {kind} was expected")
    return number
