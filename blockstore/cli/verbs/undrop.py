"""``blockstore undrop``: bring a dropped table back."""

from __future__ import annotations

from blockstore.cli.options import Json
from blockstore.cli.output import counted, say, show_json
from blockstore.operations.drop import undrop as bring_back
from blockstore.table import open_any


def undrop(url: str, /, *, message: str = "", json: Json = False) -> None:
    """Bring a dropped table back, with its versions and tags.

    Parameters
    ----------
    url
        The table.
    message
        A comment for the history.
    json
        Print the version as JSON.
    """
    version = bring_back(url, message=message)
    table = open_any(url)
    if json:
        show_json({"undropped": table.url, "version": version})
    else:
        blocks = counted(len(table.log.state.blocks), "block")
        say(f"{table.url} is back by version {version}: {blocks}")
