"""``blockstore drop``: take a table away; ``undrop`` brings it back for a time."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.failure import Usage
from blockstore.cli.options import Json
from blockstore.cli.output import counted, say, show_json
from blockstore.format.durations import format_duration
from blockstore.operations.drop import drop_table
from blockstore.table import open_any


def drop(
    url: str,
    /,
    *,
    yes: Annotated[bool, Parameter(negative="")] = False,
    message: str = "",
    json: Json = False,
) -> None:
    """Drop a table; undrop brings it back for a time.

    Its name is free at once. The compactor removes its blocks once the table cannot be brought
    back: when its `delete_delay` has passed, or when another table was created there.

    Parameters
    ----------
    url
        The table.
    yes
        Drop it. Without this the table stays, and the error says what would go.
    message
        A comment for the history.
    json
        Print the version as JSON.
    """
    table = open_any(url)
    blocks = counted(len(table.log.state.blocks), "block")
    delay = format_duration(table.definition.properties.delete_delay_s)
    if not yes:
        raise Usage(
            f"nothing was dropped: --yes drops {table.url} with its {blocks}, and undrop brings it "
            f"back for {delay}"
        )
    version = drop_table(table.log, table.world, message=message)
    if json:
        show_json({"dropped": table.url, "version": version})
    else:
        say(
            f"dropped {table.url} by version {version}, {blocks}: blockstore undrop {table.url} "
            f"brings it back for {delay}"
        )
