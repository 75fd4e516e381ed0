"""``blockstore untag``: remove a tag."""

from __future__ import annotations

from blockstore.cli.options import Json
from blockstore.cli.output import say, show_json
from blockstore.table import open_any


def untag(url: str, name: str, /, *, message: str = "", json: Json = False) -> None:
    """Remove a tag. Its version then expires like any other.

    Parameters
    ----------
    url
        The table.
    name
        The tag.
    message
        A comment for the history.
    json
        Print the name as JSON.
    """
    table = open_any(url)
    table.untag(name, message=message)
    if json:
        show_json({"untagged": name})
    else:
        say(f"tag {name!r} of {table.url} is removed; its version expires like any other")
