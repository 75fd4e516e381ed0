"""``blockstore row``: one row, as it is or as it was in a version."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.options import Json
from blockstore.cli.row_names import row_named
from blockstore.cli.row_tables import show_rows
from blockstore.errors import NotFound
from blockstore.format.identity import DELETED
from blockstore.table import open_any


def row(
    url: str,
    row: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    version: int | None = None,
    json: Json = False,
) -> None:
    """Show a row, as it is or as it was in a version.

    Parameters
    ----------
    url
        A table with row ids or a key.
    row
        The row id, or the value of the key. A key of several columns is a JSON array,
        `'["acme", "2026-01-31"]'`.
    version
        The version of the row, as `history --row` lists them.
    json
        Print the row as JSON.
    """
    table = open_any(url)
    named = row_named(row, table.definition)
    if version is None:
        found = table.row_history(named).slice(0, 1)
        if found[DELETED][0].as_py():
            raise NotFound(
                f"row {named!r} was deleted in version {found['_version'][0]}: give --version for "
                "what it was before"
            )
    else:
        found = table.fetch([(named, version)])
    show_rows(found, json=json)
