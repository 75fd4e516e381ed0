"""``blockstore put-file``: upload a file, and print the handle that a row names it by."""

from __future__ import annotations

from pathlib import Path

from blockstore.cli.output import say
from blockstore.table import open_any


def put_file(
    url: str, path: Path, /, *, name: str | None = None, content_type: str | None = None
) -> None:
    """Upload a file into a table, and print the handle to put into a cell.

    The handle is one line of JSON, as a cell of a CSV file or of --set has it. A file that no row
    names is removed some days later.

    Parameters
    ----------
    url
        A table with a column of type file.
    path
        The file.
    name
        Its name, if not that of the path.
    content_type
        Its type, such as `application/pdf`; by default what the name says.
    """
    import orjson

    handle = open_any(url).put_file(path, name=name, content_type=content_type)
    say(orjson.dumps(handle).decode())
