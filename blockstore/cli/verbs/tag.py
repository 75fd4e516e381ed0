"""``blockstore tag``: keep a version readable under a name."""

from __future__ import annotations

from blockstore.cli.options import Json
from blockstore.cli.output import say, show_json
from blockstore.table import open_any


def tag(
    url: str, name: str, /, *, version: int | None = None, message: str = "", json: Json = False
) -> None:
    """Keep a version readable under a name until it is untagged.

    Parameters
    ----------
    url
        The table.
    name
        The tag.
    version
        The version. The default is the newest.
    message
        A comment for the history.
    json
        Print the tag as JSON.
    """
    table = open_any(url)
    tagged = table.tag(name, version=version, message=message)
    if json:
        show_json({"tag": name, "version": tagged})
    else:
        say(f"tag {name!r} of {table.url} keeps version {tagged}")
