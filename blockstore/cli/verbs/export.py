"""``blockstore export``: a table for engines that do not read Blockstore."""

from __future__ import annotations

from typing import Literal

from blockstore.cli.options import Json
from blockstore.cli.output import counted, say, show_json
from blockstore.table import open_any


def export(url: str, /, *, to: Literal["iceberg", "delta"] = "iceberg", json: Json = False) -> None:
    """Write metadata of a table in a format that other engines read.

    The newest version is exported; to Iceberg also every version with a tag. The files of the table
    stay as they are; export again to show newer rows.

    Parameters
    ----------
    url
        The table.
    to
        The format of the metadata.
    json
        Print JSON.
    """
    from blockstore.export.exported import Memo
    from blockstore.export.formats import FORMATS

    done = FORMATS[to].export(open_any(url), Memo())
    if json:
        show_json(
            {
                "version": done.version,
                "metadata": done.metadata,
                "files": done.files,
                "deletes": done.deletes,
                "written": done.written,
            }
        )
        return
    hidden = f" without {counted(done.deletes, 'former row')}" if done.deletes else ""
    say(f"version {done.version} as {to}: {counted(done.files, 'file')}{hidden}")
    say(done.metadata)
