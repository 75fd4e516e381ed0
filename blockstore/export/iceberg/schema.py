"""A table's columns as Iceberg's schema. Pure.

Rules:
- Field ids are the table's own, also those of nested fields.
- Labels are columns that no file has: text, constant in each file, by an identity partition. Their
  ids follow from their names.
- A column's description is its doc.
- A type that Iceberg lacks is refused, and the column is named. No value is changed to fit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.format.column import rules_of
from blockstore.format.definition import Definition
from blockstore.format.fields import field_id, required
from blockstore.format.identity import Key

_PLAIN = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.time64("us"): "time",
}
_LABELS_FROM, _LABELS = 2_146_000_000, 1_000_000


def schema_of(schema: pa.Schema, labels: Iterable[str], schema_id: int) -> dict[str, Any]:
    """Return Iceberg's schema of these columns and labels. Raises Invalid for a type that Iceberg
    lacks.

    Its id follows from ``schema_id`` and the labels: a version shows no label that came later.
    """
    needed = required(schema)
    fields = [_field(column, column.name, is_required=column.name in needed) for column in schema]
    ids = label_ids(labels)
    for name, own in ids.items():
        fields.append({"id": own, "name": name, "required": False, "type": "string"})
    own_id = schema_id if not ids else _hashed(f"{schema_id}\0" + "\0".join(ids))
    return {"type": "struct", "schema-id": own_id, "fields": fields}


def table_schema(definition: Definition, labels: Iterable[str]) -> dict[str, Any]:
    """Return Iceberg's schema of a table's rows; its identifier fields are the key. Raises
    Invalid as ``schema_of``."""
    found = schema_of(definition.schema, labels, definition.schema_id)
    if not isinstance(definition.identity, Key):
        return found
    key = [field_id(definition.schema.field(name)) for name in definition.identity.columns]
    return {**found, "identifier-field-ids": key}


def label_ids(labels: Iterable[str]) -> dict[str, int]:
    """Return the field ids of labels. Raises Invalid where two labels would share one."""
    found: dict[str, int] = {}
    for name in sorted(labels):
        own = _LABELS_FROM + zlib.crc32(name.encode()) % _LABELS
        if own in found.values():
            raise Invalid(
                f"the labels {name!r} and another one would be the same column for Iceberg: name "
                "one of them differently"
            )
        found[name] = own
    return found


def partition_spec(labels: Iterable[str]) -> dict[str, Any]:
    """Return the partition spec of a table with these labels: an identity for each."""
    ids = label_ids(labels)
    return {
        "spec-id": 0 if not ids else _hashed("\0".join(ids)),
        "fields": [
            {
                "source-id": own,
                "field-id": 1_000 + own - _LABELS_FROM,
                "name": name,
                "transform": "identity",
            }
            for name, own in ids.items()
        ],
    }


def last_column_id(last_field_id: int, labels: Iterable[str]) -> int:
    """Return the highest field id in use."""
    return max([last_field_id, *label_ids(labels).values()])


def leaves(schema: pa.Schema) -> Sequence[tuple[str, int, pa.DataType]]:
    """Return name, id and type of the columns that are not nested."""
    return [
        (column.name, own, column.type)
        for column in schema
        if (own := field_id(column)) is not None and not pt.is_nested(column.type)
    ]


def has_coarse_times(schema: pa.Schema) -> bool:
    """Whether a column has timestamps of seconds or milliseconds."""
    return any(pt.is_timestamp(kind) and kind.unit in ("s", "ms") for kind in schema.types)


def _hashed(text: str) -> int:
    """A number that follows from a text, above those that are counted."""
    return 2**30 + zlib.crc32(text.encode()) % 2**30


def _field(column: pa.Field, path: str, *, is_required: bool) -> dict[str, Any]:
    own = field_id(column)
    assert own is not None, "every field of a definition has an id"
    kind = type_of(column.type, path)
    found = {"id": own, "name": column.name, "required": is_required, "type": kind}
    description = rules_of(column).description
    return found if description is None else {**found, "doc": description}


def type_of(kind: pa.DataType, path: str) -> Any:
    """Return Iceberg's type for a column; ``path`` names it. Raises Invalid where there is none."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pt.is_timestamp(kind) and kind.unit in ("s", "ms", "us"):
        return "timestamp" if kind.tz is None else "timestamptz"
    if pt.is_decimal(kind) and kind.scale >= 0:
        return f"decimal({kind.precision}, {kind.scale})"
    if pt.is_fixed_size_binary(kind):
        return f"fixed[{kind.byte_width}]"
    if pt.is_struct(kind):
        fields = [_field(one, f"{path}.{one.name}", is_required=False) for one in kind]
        return {"type": "struct", "fields": fields}
    if pt.is_list(kind):
        element = _field(kind.value_field, f"{path}.element", is_required=False)
        return {
            "type": "list",
            "element-id": element["id"],
            "element-required": False,
            "element": element["type"],
        }
    if pt.is_map(kind):
        key = _field(kind.key_field, f"{path}.key", is_required=True)
        value = _field(kind.item_field, f"{path}.value", is_required=False)
        return {
            "type": "map",
            "key-id": key["id"],
            "key": key["type"],
            "value-id": value["id"],
            "value-required": False,
            "value": value["type"],
        }
    raise Invalid(
        f"column {path!r} has the type {kind}, which Iceberg does not have: cast it into another "
        "column, or read the table with Blockstore"
    )
