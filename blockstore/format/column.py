"""A column of a typed table: its type by a plain name, and the rules of its values as metadata.

Rules:
- A column is an Arrow field. Its metadata has ``blockstore.type`` (``entity``, ``link`` or
  ``file``; another value is the user's own), ``blockstore.max_length``, ``blockstore.pattern``,
  ``blockstore.default``, ``blockstore.check``, ``blockstore.not_null`` and
  ``blockstore.description``.
- A default is JSON: numbers and booleans as they are, everything else as text (ISO 8601 for dates
  and times).
- Whether the rules make sense, and whether rows meet them, is decided in ``constraints.py``.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.format.fields import NOT_NULL
from blockstore.format.texts import check_text

ENTITY, LINK, FILE = "entity", "link", "file"
MAX_LENGTH = 1_000
"""Characters of a text in a table that ``typed_schema`` describes, unless it says otherwise."""

HANDLE = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("content_type", pa.string()),
        ("bytes", pa.int64()),
        ("sha256", pa.string()),
    ]
)
"""What a row holds of a file."""

TYPES: Mapping[str, pa.DataType] = {
    "integer": pa.int64(),
    "string": pa.string(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    ENTITY: pa.string(),
    LINK: pa.string(),
    FILE: HANDLE,
}
"""The types of the typed door, by name."""

_TYPE = b"blockstore.type"
_KEYS = {
    "type": _TYPE,
    "max_length": b"blockstore.max_length",
    "pattern": b"blockstore.pattern",
    "default": b"blockstore.default",
    "check": b"blockstore.check",
    "description": b"blockstore.description",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a column's metadata says of its values, as text; None: nothing."""

    type: str | None = None
    not_null: bool = False
    max_length: str | None = None
    pattern: str | None = None
    default: str | None = None
    """JSON."""
    check: str | None = None
    description: str | None = None

    @property
    def enforced(self) -> bool:
        """Whether a writer must do more than refuse nulls."""
        rules = (self.type, self.max_length, self.pattern, self.default, self.check)
        return any(rule is not None for rule in rules)

    def changed(self, changes: Mapping[str, object], name: str) -> Rules:
        """Return the rules with some of them set, or taken away by None. Raises Invalid."""
        known = {one.name for one in fields(Rules)} - {"type"}
        strange = sorted(set(changes) - known)
        if strange:
            raise Invalid(
                f"column {name!r} has no property {strange[0]!r}, expected one of "
                f"{', '.join(sorted(known))}"
            )
        texts: dict[str, Any] = {key: _text(key, value, name) for key, value in changes.items()}
        return replace(self, **texts)

    def on(self, field: pa.Field) -> pa.Field:
        """Return the field with these rules, and no others."""
        metadata = {
            key: value
            for key, value in (field.metadata or {}).items()
            if key != NOT_NULL and key not in _KEYS.values()
        }
        own = (field.metadata or {}).get(_TYPE)
        if own is not None and _type(own) is None:
            metadata[_TYPE] = own
        for name, key in _KEYS.items():
            text = getattr(self, name)
            if text is not None:
                metadata[key] = text.encode()
        if self.not_null:
            metadata[NOT_NULL] = b"true"
        return field.with_metadata(metadata or None)


def rules_of(field: pa.Field) -> Rules:
    """Return what a field's metadata says. Raises Invalid for what is not UTF-8."""
    metadata = field.metadata or {}
    if not metadata:
        return Rules()
    try:
        texts = {name: metadata[key].decode() for name, key in _KEYS.items() if metadata.get(key)}
    except UnicodeDecodeError:
        raise Invalid(
            f"the metadata of column {field.name!r} is not UTF-8, expected text: write its "
            "blockstore.* properties again"
        ) from None
    texts.pop("type", None)
    return Rules(
        type=_type(metadata.get(_TYPE, b"")), not_null=metadata.get(NOT_NULL) == b"true", **texts
    )


def column(
    name: str,
    type: str | pa.DataType,  # noqa: A002
    *,
    not_null: bool = False,
    max_length: int | None = None,
    default: object = None,
    check: str | None = None,
    description: str | None = None,
    pattern: str | None = None,
) -> pa.Field:
    """Return a column for ``create`` or ``alter``.

    Args:
        name: Its name.
        type: ``integer``, ``string``, ``double``, ``boolean``, ``date``, ``timestamp``, ``entity``,
            ``link`` or ``file``; or any Arrow type.
        not_null: Whether it refuses nulls.
        max_length: The most characters of a text.
        default: The value of rows that come without the column.
        check: A condition that no row may make false, as ``age >= 0 AND age < 150``.
        description: What the column means, for people.
        pattern: The regular expression that identifiers match completely; for ``entity`` only.

    Raises:
        Invalid: The type is unknown, or a rule is not of its kind. What the rules say is checked
            when a table is made with them.
    """
    kind = TYPES.get(type) if isinstance(type, str) else type
    if kind is None or not isinstance(kind, pa.DataType):
        raise Invalid(
            f"column {name!r} has the type {type!r}, expected one of {', '.join(TYPES)}, or an "
            "Arrow type"
        )
    given = {
        "not_null": not_null,
        "max_length": max_length,
        "default": default,
        "check": check,
        "description": description,
        "pattern": pattern,
    }
    own = type if isinstance(type, str) and type in (ENTITY, LINK, FILE) else None
    return Rules(type=own).changed(given, name).on(pa.field(name, kind))


def entity(name: str, *, pattern: str, **rules: Any) -> pa.Field:
    """Return a column of identifiers that match ``pattern`` completely; else as ``column``."""
    return column(name, ENTITY, pattern=pattern, **rules)


def link(name: str, **rules: Any) -> pa.Field:
    """Return a column of absolute URLs; else as ``column``."""
    return column(name, LINK, **rules)


def file(name: str, **rules: Any) -> pa.Field:
    """Return a column of handles of files (id, name, content_type, bytes, sha256); else as
    ``column``."""
    return column(name, FILE, **rules)


def typed_schema(
    columns: Iterable[pa.Field | tuple[str, str]], *, max_length: int | None = MAX_LENGTH
) -> pa.Schema:
    """Return the schema of a typed table: fields, or pairs of a name and a type of ``column``.

    Columns of type ``string`` without a limit of their own get ``max_length`` characters; None:
    no limit.
    """
    made = [one if isinstance(one, pa.Field) else _of_pair(one) for one in columns]
    return pa.schema([_limited(one, max_length) for one in made])


def _of_pair(pair: object) -> pa.Field:
    match pair:
        case (str(name), str(kind)) if kind == ENTITY:
            raise Invalid(
                f"column {name!r} is an entity without a pattern, expected one that its "
                "identifiers match: write blockstore.entity(name, pattern=…)"
            )
        case (str(name), str() | pa.DataType() as kind):
            return column(name, kind)
    raise Invalid(
        f"a typed schema has the column {pair!r}, expected a pair such as ('age', 'integer'), or "
        "what blockstore.column returns"
    )


def _limited(field: pa.Field, max_length: int | None) -> pa.Field:
    rules = rules_of(field)
    if max_length is None or rules.max_length is not None or rules.type is not None:
        return field
    if not pt.is_string(field.type):
        return field
    return rules.changed({"max_length": max_length}, field.name).on(field)


def _type(value: bytes) -> str | None:
    """The type that Blockstore gives a meaning; another is the user's own."""
    return next((one for one in (ENTITY, LINK, FILE) if one.encode() == value), None)


def _text(key: str, value: object, name: str) -> object:
    """A rule as it is stored. Raises Invalid for a value that is not of its kind."""
    if key == "not_null":
        return value is True or (value not in (False, None) and _strange(key, value, name))
    if value is None:
        return None
    if key == "max_length":
        whole = isinstance(value, int) and not isinstance(value, bool)
        return str(value) if whole else _strange(key, value, name)
    if isinstance(value, str):
        check_text(f"the {key} of column {name!r}", value, limit=len(value))
    if key == "default":
        return default_text(value, name)
    return value if isinstance(value, str) and value else _strange(key, value, name)


def default_text(value: object, name: str) -> str:
    """Return a default as it is stored. Raises Invalid for what has no such form."""
    if isinstance(value, datetime.date | datetime.time):
        return json.dumps(value.isoformat())
    if isinstance(value, Decimal):
        return json.dumps(str(value))
    if isinstance(value, bool | int | float | str):
        return json.dumps(value, ensure_ascii=False)
    _strange("default", value, name)
    return ""


def _strange(key: str, value: object, name: str) -> object:
    expected = {
        "not_null": "True or False",
        "max_length": "a number of characters",
        "default": "a number, a text, a boolean, a date or a time",
    }.get(key, "a text")
    raise Invalid(f"column {name!r} has the {key} {value!r}, expected {expected}")
