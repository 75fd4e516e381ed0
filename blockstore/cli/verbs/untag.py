"""``blockstore untag``: take a tag away."""

from __future__ import annotations

from blockstore.cli.options import Json
from blockstore.cli.output import say, show_json
from blockstore.table import open_any


def untag(url: str, name: str, /, *, message: str = "", json: Json = False) -> None:
    """Take a tag away; its version expires with its age.

    Parameters
    ----------
    url
        The table.
    name
        The tag.
    message
        What the history says about it.
    json
        Print the name as JSON.
    """
    table = open_any(url)
    table.untag(name, message=message)
    if json:
        show_json({"untagged": name})
    else:
        say(f"tag {name!r} of {table.url} is gone; its version expires with its age")
