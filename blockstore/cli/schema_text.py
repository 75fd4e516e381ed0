"""The columns of a table as people write them: ``carrier:string, delay:int, at:timestamp[us, UTC]
not null``.

The grammar: columns are separated by commas; a column is ``name:type``, with ``not null`` or ``!``
after the type; a name with other characters than letters, digits and ``_`` is in double quotes.
Types nest: ``list<int>``, ``map<string, double>``, ``struct<lat:double, lon:double>``. The types
``entity``, ``link`` and ``file`` are those of columns only, and have rules.
"""

from __future__ import annotations

import re
from typing import NoReturn

import pyarrow as pa

from blockstore.cli.failure import Usage
from blockstore.format.column import ENTITY, FILE, LINK, TYPES, column

_TYPES = {
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "tinyint": pa.int8(),
    "int16": pa.int16(),
    "smallint": pa.int16(),
    "int32": pa.int32(),
    "integer": pa.int32(),
    "int": pa.int64(),
    "int64": pa.int64(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float": pa.float32(),
    "float32": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "text": pa.string(),
    "varchar": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "date32": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
_TYPED = (ENTITY, LINK, FILE)
_UNITS = ("s", "ms", "us", "ns")
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
_TOKEN = re.compile(r'\s*(?:("(?:[^"]|"")+")|([A-Za-z0-9_./+-]+)|([:,<>()\[\]!]))')


def parse_schema(text: str) -> pa.Schema:
    """Parse ``name:type,…``. Raises Usage with the position and what was expected."""
    parser = _Parser(text)
    fields = parser.fields(end=None)
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Usage(f"the schema names {twice[0]!r} twice, expected each column once")
    return pa.schema(fields)


def type_name(kind: pa.DataType) -> str:
    """Return the type as ``parse_schema`` reads it; its Arrow name if the grammar has none."""
    if pa.types.is_struct(kind):
        fields = ", ".join(f"{_name(field.name)}:{type_name(field.type)}" for field in kind.fields)
        return f"struct<{fields}>"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)}, {type_name(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"list<{type_name(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return (
            f"timestamp[{kind.unit}]" if kind.tz is None else f"timestamp[{kind.unit}, {kind.tz}]"
        )
    for name, known in _TYPES.items():
        if known.equals(kind):
            return name
    return str(kind)


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


class _Parser:
    """Reads tokens from left to right; every error has its position and what was expected."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._nested = 0

    def fields(self, end: str | None) -> list[pa.Field]:
        fields = [self._field()]
        while self._take(","):
            fields.append(self._field())
        if end is not None:
            self._expect(end)
        elif self._at < len(self._text.rstrip()):
            self._fail("a comma or the end")
        return fields

    def _field(self) -> pa.Field:
        name = self._word("a column's name")
        self._expect(":")
        typed = self._peek().lower()
        if typed in _TYPED and not self._nested:
            self._word("a type")
            kind, metadata = TYPES[typed], column(name, typed).metadata
        else:
            kind, metadata = self._type(), None
        required = self._take("!")
        if not required and self._peek().lower() == "not":
            self._word("not")
            if self._word("null").lower() != "null":
                self._fail("null after not")
            required = True
        return pa.field(name, kind, nullable=not required, metadata=metadata)

    def _type(self) -> pa.DataType:
        start = self._at
        word = self._word("a type").lower()
        if word == "decimal" or word == "numeric":
            self._expect("(")
            precision = self._number()
            self._expect(",")
            scale = self._number()
            self._expect(")")
            if not 1 <= precision <= 38 or not 0 <= scale <= precision:
                self._fail("a decimal of 1 to 38 digits with a scale no larger")
            return pa.decimal128(precision, scale)
        if word in ("list", "array"):
            self._expect("<")
            value = self._type()
            self._expect(">")
            return pa.list_(value)
        if word == "map":
            self._expect("<")
            key = self._type()
            self._expect(",")
            item = self._type()
            self._expect(">")
            return pa.map_(key, item)
        if word == "struct":
            self._expect("<")
            self._nested += 1
            fields = self.fields(end=">")
            self._nested -= 1
            return pa.struct(fields)
        if word in ("timestamp", "timestamptz") and self._take("["):
            return self._timestamp(word)
        if word not in _TYPES:
            self._at = start
            self._fail(
                f"a type: one of {', '.join((*_TYPES, *_TYPED))}, decimal(p, s), "
                "timestamp[unit, zone], list<…>, map<…, …>, struct<…>"
            )
        return _TYPES[word]

    def _timestamp(self, word: str) -> pa.DataType:
        unit = self._word("a unit")
        if unit not in _UNITS:
            self._fail(f"a unit, not {unit!r}: one of {', '.join(_UNITS)}")
        zone = self._word("a time zone") if self._take(",") else None
        self._expect("]")
        return pa.timestamp(unit, zone or ("UTC" if word == "timestamptz" else None))

    def _number(self) -> int:
        word = self._word("a number")
        if not (word.isascii() and word.isdigit()):
            self._fail(f"a number, not {word!r}")
        return int(word)

    def _peek(self) -> str:
        match = _TOKEN.match(self._text, self._at)
        return match.group().strip() if match else ""

    def _take(self, mark: str) -> bool:
        if self._peek() != mark:
            return False
        self._at = _TOKEN.match(self._text, self._at).end()  # type: ignore[union-attr]
        return True

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            self._fail(f"{mark!r}")

    def _word(self, what: str) -> str:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match[3]:
            self._fail(what)
        self._at = match.end()
        return match[1][1:-1].replace('""', '"') if match[1] else match[2]

    def _fail(self, expected: str) -> NoReturn:
        rest = self._text[self._at :].strip()
        found = f"{rest[:20]!r}" if rest else "the end"
        raise Usage(
            f"the schema {self._text!r} cannot be read at character {self._at + 1}, found "
            f"{found}, expected {expected}"
        )
