"""``blockstore get-file``: download the file that a cell names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.options import Many
from blockstore.cli.output import say
from blockstore.cli.row_names import row_named
from blockstore.cli.values import pairs
from blockstore.client.atomic_file import atomic_file
from blockstore.errors import Invalid
from blockstore.names import file_object_name
from blockstore.table import open_any

_PIECE = 1 << 20


def get_file(
    url: str,
    row: Annotated[str, Parameter(allow_leading_hyphen=True)],
    column: str,
    /,
    *,
    to: Path | None = None,
    version: int | None = None,
    label: Annotated[Many, Parameter(name="--label", negative="")] = (),
) -> None:
    """Download the file that a cell names. It appears only when it is complete and right.

    Parameters
    ----------
    url
        A table with row ids or a key.
    row
        The row id, or the value of the key. A key of several columns is a JSON array,
        `'["acme", "2026-01-31"]'`.
    column
        A column of type file.
    to
        Where to write it; by default under its own name in this folder, if none is there.
    version
        The version of the row, as `history --row` lists them.
    label
        With a key: a label of the row, `name=value`, where several rows have the key.
    """
    table = open_any(url)
    named, labels = row_named(row, table.definition), pairs(label, "--label") or None
    file = table.open_file(named, column, version=version, labels=labels)
    path = to or Path(file_object_name(file.handle["name"]))
    if to is None and path.exists():
        raise Invalid(f"{path} exists here already: choose another place with --to")
    with atomic_file(path, table.world.ids) as out:
        while piece := file.read(_PIECE):
            out.write(piece)
    say(f"{path}: {file.handle['bytes']:,} bytes, {file.handle['content_type']}")
