"""The table that a client of the catalog asks for, as the body of a new table. Pure.

Rules:
- Columns keep their names, types and order. Their ids are the table's own, as the response says.
- Identifier fields are the key. A sort order by columns is the order of rows in a chunk. The time
  column is named by the property ``blockstore.time-column``.
- Partitions are refused: labels come with the rows.
- Other properties are the engine's own affair and are left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blockstore.errors import Invalid
from blockstore.reader.iceberg.columns import column_of, name_of
from blockstore.reader.iceberg.documents import list_of, object_of, objects_of

_TIME_COLUMN = "blockstore.time-column"
_SORTED = ("identity", "asc")


def body_of(request: object) -> dict[str, Any]:
    """Return the body of ``POST /v1/tables`` for what a client sends. Raises Invalid."""
    asked = object_of(request, "the body")
    name = name_of(asked)
    if object_of(asked.get("partition-spec") or {}, "partition-spec").get("fields"):
        raise Invalid(
            "a table has no partitions of its own: leave PARTITIONED BY out; rows with labels are "
            "kept apart"
        )
    schema = object_of(asked.get("schema"), "schema")
    fields = objects_of(schema, "fields")
    names = {_id_of(field): name_of(field) for field in fields}
    properties = object_of(asked.get("properties") or {}, "properties")
    return {
        "name": name,
        "columns": [column_of(field) for field in fields],
        "time_column": properties.get(_TIME_COLUMN),
        "key": [_named(names, own) for own in list_of(schema, "identifier-field-ids")],
        "sort_by": _sorted_by(object_of(asked.get("write-order") or {}, "write-order"), names),
    }


def is_staged(request: object) -> bool:
    """Whether a client only asks what the table would be, to create it together with its rows."""
    return bool(object_of(request, "the body").get("stage-create"))


def staged(
    document: Mapping[str, Any], request: Mapping[str, Any], body: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the metadata of a table that is still to be created, with what the client sends back
    when it creates it: the order and the properties that it asked for."""
    (schema,) = document["schemas"]
    ids = {field["name"]: field["id"] for field in schema["fields"]}
    order = [
        {**field, "source-id": ids[name]}
        for field, name in zip(
            (request.get("write-order") or {}).get("fields") or (), body["sort_by"], strict=True
        )
    ]
    return {
        **document,
        "default-sort-order-id": 1 if order else 0,
        "sort-orders": [{"order-id": 1 if order else 0, "fields": order}],
        "properties": {**(request.get("properties") or {}), **document["properties"]},
    }


def _sorted_by(order: Mapping[str, Any], names: Mapping[Any, str]) -> list[str]:
    found = []
    for one in list_of(order, "fields"):
        field = object_of(one, "a field of write-order")
        if (field.get("transform"), field.get("direction")) != _SORTED:
            raise Invalid("rows are sorted by columns, ascending: name columns in the sort order")
        found.append(_named(names, field.get("source-id")))
    return found


def _id_of(field: Mapping[str, Any]) -> int | None:
    own = field.get("id")
    if not isinstance(own, int | None):
        raise Invalid(f"the id of a field is {str(own)[:100]}, expected a number")
    return own


def _named(names: Mapping[Any, str], own: object) -> str:
    if not isinstance(own, int) or own not in names:
        raise Invalid(f"the schema has no field with the id {str(own)[:100]}")
    return names[own]
