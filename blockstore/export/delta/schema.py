"""A table's columns as Delta's schema. Pure.

Rules:
- Labels are partition columns after the table's own: text, constant in each file.
- A type that Delta lacks is refused, and the column is named. No value is changed to fit.
- Columns are found by name. A chunk in which a column has another name or another type than now is
  refused until a merge has rewritten it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.format.fields import field_id, required

_PLAIN = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
}


def schema_of(schema: pa.Schema, labels: Iterable[str]) -> dict[str, Any]:
    """Return Delta's schema of these columns and labels. Raises Invalid for a type that Delta
    lacks."""
    needed = required(schema)
    fields = [_field(one, one.name, nullable=one.name not in needed) for one in schema]
    fields += [_field(pa.field(name, pa.string()), name) for name in labels]
    return {"type": "struct", "fields": fields}


def with_mapping(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with each field mapped to its own name, which is Delta's feature
    ``columnMapping``."""
    mapped: dict[str, Any] = _mapped(schema, itertools.count(1))
    return mapped


def has_local_times(schema: pa.Schema) -> bool:
    """Whether some column holds times without a zone, which is Delta's feature ``timestampNtz``."""
    return any(_is_local(one.type) for one in schema)


def check_same_columns(now: pa.Schema, chunk: pa.Schema) -> None:
    """Raise Invalid where a chunk's columns, found by name, are not the table's."""
    names = {field_id(one): one for one in now}
    for one in chunk:
        meant = names.get(field_id(one))
        if meant is None and one.name not in now.names:
            continue
        if meant is None or meant.name != one.name or meant.type != one.type:
            was = now.field(one.name) if meant is None else meant
            raise Invalid(
                f"column {was.name!r} is now {was.type}, and some blocks have it as {one.name!r} "
                f"of {one.type} or as another column, which Delta cannot read: export the table "
                "when merges have rewritten them"
            )


def _field(column: pa.Field, path: str, *, nullable: bool = True) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": _type(column.type, path),
        "nullable": nullable,
        "metadata": {},
    }


def _type(kind: pa.DataType, path: str) -> Any:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pt.is_decimal(kind) and kind.scale >= 0 and kind.precision <= 38:
        return f"decimal({kind.precision},{kind.scale})"
    if pt.is_struct(kind):
        return {"type": "struct", "fields": [_field(one, f"{path}.{one.name}") for one in kind]}
    if pt.is_list(kind):
        element = _type(kind.value_type, f"{path}.element")
        return {"type": "array", "elementType": element, "containsNull": True}
    if pt.is_map(kind):
        return {
            "type": "map",
            "keyType": _type(kind.key_type, f"{path}.key"),
            "valueType": _type(kind.item_type, f"{path}.value"),
            "valueContainsNull": True,
        }
    raise Invalid(
        f"column {path!r} has the type {kind}, which Delta does not have: cast it into another "
        "column, or read the table with Blockstore"
    )


def _mapped(kind: Any, numbers: Iterator[int]) -> Any:
    if not isinstance(kind, dict):
        return kind
    if kind["type"] != "struct":
        return {key: _mapped(part, numbers) for key, part in kind.items()}
    fields = []
    for one in kind["fields"]:
        said = {
            "delta.columnMapping.id": next(numbers),
            "delta.columnMapping.physicalName": one["name"],
        }
        fields.append({**one, "type": _mapped(one["type"], numbers), "metadata": said})
    return {"type": "struct", "fields": fields}


def _is_local(kind: pa.DataType) -> bool:
    if pt.is_timestamp(kind):
        return kind.tz is None
    return any(_is_local(kind.field(place).type) for place in range(kind.num_fields))
