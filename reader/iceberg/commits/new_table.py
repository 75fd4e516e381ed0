"""A table that a client makes together with its first rows. Pure.

Rules:
- The client has asked for the table's metadata before, and sends it back as updates. What it says
  of columns, key, order and time column makes the table, as in a request to create one.
- Its files name columns by the ids of that metadata, so the table must give its columns the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.export.iceberg.metadata import FORMAT
from blockstore.export.iceberg.schema import schema_of
from blockstore.reader.iceberg.commits.required import Required
from blockstore.reader.iceberg.commits.wanted import Wanted, rows_of
from blockstore.reader.iceberg.creating import body_of
from blockstore.reader.iceberg.documents import number_of, object_of, objects_of, text_of

_ROWS = frozenset({"add-snapshot", "set-snapshot-ref"})
_SETTLED = frozenset(
    {"set-current-schema", "set-default-spec", "set-default-sort-order", "set-location"}
)
"""Updates that choose what the request has one of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """A table, and its rows."""

    uuid: str
    """That its metadata had."""
    body: dict[str, Any]
    """As of ``POST /v1/tables``."""
    fields: list[Mapping[str, Any]]
    """The columns, as the client knows them."""
    rows: Wanted | None

    def check(self, schema: pa.Schema) -> None:
        """Raise Invalid where the table, with these columns, has given them other ids."""
        own = schema_of(schema, (), 0)["fields"]
        if [_ids(field) for field in self.fields] != [_ids(field) for field in own]:
            raise Invalid(
                "the ids of the columns are not those that the catalog gave them: create the table "
                "first, then insert"
            )


def new_table_of(updates: Sequence[Mapping[str, Any]], name: str) -> NewTable:
    """Return what the updates of a commit make. Raises Invalid."""
    uuid, schemas = "", []
    properties: dict[str, Any] = {}
    asked: dict[str, Any] = {"name": name}
    for update in updates:
        match update.get("action"):
            case "assign-uuid":
                uuid = text_of(update, "uuid")
            case "upgrade-format-version":
                _check_format(number_of(update, "format-version"))
            case "add-schema":
                schemas.append(object_of(update.get("schema"), "the schema of add-schema"))
            case "add-spec":
                asked["partition-spec"] = update.get("spec")
            case "add-sort-order":
                asked["write-order"] = update.get("sort-order")
            case "set-properties":
                properties |= object_of(update.get("updates"), "the updates of set-properties")
            case action if action not in _SETTLED | _ROWS:
                raise Invalid(f"the update {str(action)[:100]!r} makes no part of a new table")
    if not uuid or len(schemas) != 1:
        raise Invalid("a new table has one UUID and one schema, those that the catalog gave it")
    rows = [update for update in updates if update["action"] in _ROWS]
    required = Required(uuid=uuid, requires={}, is_new=True)
    return NewTable(
        uuid=uuid,
        body=body_of({**asked, "schema": schemas[0], "properties": properties}),
        fields=objects_of(schemas[0], "fields"),
        rows=rows_of(rows, required) if rows else None,
    )


def _check_format(version: int) -> None:
    if version != FORMAT:
        raise Invalid(f"the format version is {version}, expected {FORMAT}")


def _ids(value: object) -> object:
    """The names and ids of a field and all within it."""
    if not isinstance(value, dict):
        return None
    own = {name: one for name, one in value.items() if name == "name" or name.endswith("id")}
    inner = {
        name: [_ids(one) for one in found] if isinstance(found, list) else _ids(found)
        for name in ("type", "element", "key", "value", "fields")
        if isinstance(found := value.get(name), dict | list)
    }
    return {**own, **inner}
