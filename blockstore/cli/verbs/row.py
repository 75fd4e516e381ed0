"""``blockstore row``: one row, as it is or as it was in a version."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.options import Json, Many
from blockstore.cli.row_names import row_named
from blockstore.cli.row_tables import show_rows
from blockstore.cli.values import pairs
from blockstore.rows.versions import row_at
from blockstore.table import open_any


def row(
    url: str,
    row: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    version: int | None = None,
    label: Annotated[Many, Parameter(name="--label", negative="")] = (),
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
    label
        With a key: a label of the row, `name=value`, where several rows have the key.
    json
        Print the row as JSON.
    """
    table = open_any(url)
    named = row_named(row, table.definition)
    view, labels = table.snapshot(), pairs(label, "--label") or None
    found = row_at(view.bucket, view.world, view.snapshot, named, version=version, labels=labels)
    show_rows(found, json=json)
