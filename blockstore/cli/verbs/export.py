"""``blockstore export``: a table for engines that do not read Blockstore."""

from __future__ import annotations

from typing import Literal

from blockstore.cli.options import Json
from blockstore.cli.output import counted, say, show_json
from blockstore.table import open_any


def export(url: str, /, *, to: Literal["iceberg"] = "iceberg", json: Json = False) -> None:
    """Write Iceberg metadata of a table, so that other engines read it.

    The newest version and every version with a tag are exported. The files of the table stay as
    they are; export again to show newer rows.

    Parameters
    ----------
    url
        The table.
    to
        The format of the metadata.
    json
        Print JSON.
    """
    from blockstore.iceberg.export import export_iceberg

    done = export_iceberg(open_any(url))
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
