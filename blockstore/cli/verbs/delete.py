"""``blockstore delete``: the rows for which a condition is true go, in one version."""

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

    Earlier versions still show them until they are collected.

    Parameters
    ----------
    url
        The table.
    where
        The condition, in SQL; a row for which it is unknown (null) stays. `true` is every row.
    isolation
        write-serializable: what others append meanwhile stays; serializable: it conflicts. The
        default is the table's.
    read_version
        The version that the condition was made for: what others appended since then stays, or
        conflicts.
    dry_run
        Say what would go, and change nothing.
    message
        What the history says about it.
    json
        Print the answer as JSON.
    """
    table = open_any(url)
    done = table.delete(
        where, isolation=isolation, read_version=read_version, dry_run=dry_run, message=message
    )
    if json:
        show_json(changed_json(done))
    else:
        say(summary(done, table.url))
