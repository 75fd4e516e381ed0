"""``blockstore delete``: delete the rows for which a condition is true, in one version."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.changed import changed_json, summary
from blockstore.cli.options import DryRun, Json
from blockstore.cli.output import say, show_json
from blockstore.table import open_any


def delete(
    url: str,
    /,
    *,
    where: str,
    isolation: Annotated[str | None, Parameter(name="--isolation")] = None,
    read_version: int | None = None,
    dry_run: DryRun = False,
    message: str = "",
    json: Json = False,
) -> None:
    """Delete the rows for which a condition is true.

    Earlier versions still show the rows until they are collected.

    Parameters
    ----------
    url
        The table.
    where
        The condition in SQL. A row for which it is null stays. `true` deletes every row.
    isolation
        What to do with rows that others append meanwhile. write-serializable: they stay.
        serializable: the delete fails with a conflict; where rows have ids or a key, it is planned
        again with these rows. The default is the table's property.
    read_version
        The version that the condition was written for. Rows appended since then count as appended
        meanwhile.
    dry_run
        Show what would be deleted, and change nothing.
    message
        A comment for the history.
    json
        Print the result as JSON.
    """
    table = open_any(url)
    done = table.delete(
        where, isolation=isolation, read_version=read_version, dry_run=dry_run, message=message
    )
    if json:
        show_json(changed_json(done))
    else:
        say(summary(done, table.url))
