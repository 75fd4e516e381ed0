"""What a client asks for in a commit. Pure.

Rules:
- A commit adds snapshots and points the branch ``main`` to the last of them, or it gives the table
  other columns, or it makes a table. All else is refused: properties and tags are changed by
  Blockstore's own means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blockstore.errors import Invalid
from blockstore.reader.iceberg.commits.altering import NewColumns
from blockstore.reader.iceberg.commits.new_table import NewTable, new_table_of
from blockstore.reader.iceberg.commits.required import Required, required_of
from blockstore.reader.iceberg.commits.wanted import Wanted, rows_of
from blockstore.reader.iceberg.documents import object_of, objects_of, text_of

_ROWS = frozenset({"add-snapshot", "set-snapshot-ref"})
_COLUMNS = frozenset({"add-schema", "set-current-schema"})
_LAST = -1
"""The id that a client gives to the schema that it adds."""


def wanted_of(body: object, name: str) -> Wanted | NewColumns | NewTable:
    """Return what the body of a request asks for; ``name`` is the table's. Raises Invalid."""
    request = object_of(body, "the body")
    updates = objects_of(request, "updates")
    actions = {text_of(update, "action") for update in updates}
    required = required_of(objects_of(request, "requirements"))
    if required.is_new:
        return new_table_of(updates, name)
    if actions and actions <= _COLUMNS:
        return _columns(required, updates)
    if actions <= _ROWS:
        return rows_of(updates, required)
    if actions <= _ROWS | _COLUMNS:
        raise Invalid("columns are changed in a commit of their own: commit them, then rows")
    other = min(actions - _ROWS - _COLUMNS)
    raise Invalid(
        f"the update {other[:100]!r} is not possible here: a commit appends, replaces or "
        "deletes rows of the branch 'main', or changes columns; change properties and tags with "
        "Blockstore"
    )


def _columns(required: Required, updates: Sequence[Mapping[str, Any]]) -> NewColumns:
    schemas = [
        object_of(update.get("schema"), "the schema of add-schema")
        for update in updates
        if update["action"] == "add-schema"
    ]
    chosen = [
        update.get("schema-id") for update in updates if update["action"] == "set-current-schema"
    ]
    if len(schemas) != 1 or chosen not in ([_LAST], [schemas[0].get("schema-id")]):
        raise Invalid("a commit of columns adds one schema, and makes it the current one")
    if "current-schema-id" not in required.requires:
        raise Invalid(
            "a commit of columns lacks the requirement 'assert-current-schema-id', which says from "
            "which columns the client set out"
        )
    return NewColumns(uuid=required.uuid, requires=required.requires, schema=schemas[0])
