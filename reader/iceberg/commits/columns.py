"""A client's change of columns as one version of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from blockstore.bucket.url import without_options
from blockstore.errors import Conflict
from blockstore.export.iceberg.metadata import table_uuid
from blockstore.export.iceberg.schema import schema_of
from blockstore.operations.alter import alter
from blockstore.reader.iceberg.commits.altering import NewColumns
from blockstore.reader.jobs.bodies import alteration_of
from blockstore.table import Table


def change_columns(
    table: Table, wanted: NewColumns, document: Callable[[], Mapping[str, Any]]
) -> int:
    """Alter the table; return the version that has the columns.

    Args:
        table: A handle of this change alone, just opened.
        wanted: What the client asks for.
        document: Returns the newest metadata of the table.

    Raises:
        Conflict: The table has other columns by now than the client requires.
        Invalid: The columns cannot become those, or a row breaks a new rule.
        Unavailable, Indeterminate: As a commit.
    """
    shown = document()
    wanted.check(shown)
    state = table.log.poll()
    location = without_options(table.bucket.url)
    definition = state.definition
    (current,) = [one for one in shown["schemas"] if one["schema-id"] == shown["current-schema-id"]]
    own = schema_of(definition.schema, (), definition.schema_id)["fields"]
    labels = [field for field in current["fields"] if field not in own]
    is_other = table_uuid(location, state.created) != wanted.uuid
    if is_other or [*own, *labels] != current["fields"]:
        raise Conflict("the table has other columns by now: load it again")
    change = alteration_of(wanted.body(current, frozenset(field["id"] for field in labels)))
    alter(table.bucket, table.log, table.world, change, seen=definition)
    return table.log.state.version
