"""``blockstore history``: a table's versions, the oldest first."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.failure import Usage
from blockstore.cli.options import Json
from blockstore.cli.output import Cell, Column, count, iso, show_json, show_table
from blockstore.cli.row_names import row_named
from blockstore.cli.row_tables import show_rows
from blockstore.index.entry import Entry
from blockstore.table import open_any

_COLUMNS = (
    Column("version", "VERSION", right=True),
    Column("time", "TIME"),
    Column("operation", "OPERATION"),
    Column("added", "ADDED", right=True),
    Column("removed", "REMOVED", right=True),
    Column("rows", "ROWS ADDED", right=True),
    Column("job", "JOB"),
    Column("message", "MESSAGE", fold=True, least=10),
)


def history(
    url: str,
    /,
    *,
    last: Annotated[int | None, Parameter(name=["--last", "-n"])] = None,
    row: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    json: Json = False,
) -> None:
    """Show a table's versions, the oldest first, as far back as they are kept.

    Parameters
    ----------
    url
        The table.
    last
        Show only this many of the newest versions.
    row
        Show the versions of this row instead, the newest first: its row id, or the value of its
        key (of several columns: a JSON array).
    json
        Print JSON: one object for each version.
    """
    if last is not None and last < 1:
        raise Usage(f"--last is {last}, expected 1 or more")
    table = open_any(url, dropped=row is None)
    if row is not None:
        found = table.row_history(row_named(row, table.definition))
        show_rows(found.slice(0, last), json=json)
        return
    newest = table.log.state.version
    first = None if last is None or last >= newest else newest - last + 1
    entries = list(table.log.entries(first) if first is not None else table.history())
    if json:
        show_json([_json(entry) for entry in entries])
    else:
        show_table(_COLUMNS, [_cells(entry) for entry in entries])


def _json(entry: Entry) -> dict[str, Cell]:
    return {
        "version": entry.id,
        "time": iso(entry.time),
        "operation": str(entry.operation),
        "added": [block.meta.ulid for block in entry.add],
        "removed": list(entry.remove),
        "rows_added": sum(block.meta.rows for block in entry.add),
        "hidden": {ulid: list(sources) for ulid, sources in entry.excepts.items()},
        "job": None if entry.job is None else {"app": entry.job.app, "batch": entry.job.batch},
        "tags": dict(entry.tags),
        "message": entry.message,
        "schema_id": None if entry.table is None else entry.table.schema_id,
        "commit": entry.commit,
        "prev": None if entry.prev is None else asdict(entry.prev),
        "by": entry.by,
    }


def _cells(entry: Entry) -> dict[str, str]:
    return {
        "version": str(entry.id),
        "time": iso(entry.time // 1000 * 1000),
        "operation": str(entry.operation),
        "added": count(len(entry.add)) if entry.add else "",
        "removed": count(len(entry.remove)) if entry.remove else "",
        "rows": count(sum(block.meta.rows for block in entry.add)) if entry.add else "",
        "job": "" if entry.job is None else f"{entry.job.app}/{entry.job.batch}",
        "message": ": ".join(text for text in (_named(entry), entry.message) if text),
    }


def _named(entry: Entry) -> str:
    """Return the tags that the entry set or removed, as text."""
    return ", ".join(
        f"tag {name!r} removed" if version is None else f"tag {name!r} for version {version}"
        for name, version in sorted(entry.tags.items())
    )
