"""The verb ``import``: a table of Iceberg, Delta or plain Parquet as a table of our own."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.options import Json
from blockstore.cli.output import counted, say, show_json
from blockstore.cli.values import listed
from blockstore.reader.importing.imported import Wanted, import_rows
from blockstore.reader.importing.sources import Form, open_source


def import_(
    source: str,
    url: str,
    /,
    *,
    from_: Annotated[Form | None, Parameter(name="--from")] = None,
    time_column: str | None = None,
    sort_by: str | None = None,
    key: str | None = None,
    row_ids: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
) -> None:
    """Copy a table of Iceberg or Delta, or Parquet files, into a new table.

    All rows become visible in one version, or none. Then the table is read, and its rows are
    compared with those of the source. Run a command that was stopped again: nothing is doubled.

    Parameters
    ----------
    source
        The folder of the table or of the files, one Parquet file, or the metadata file of an
        Iceberg table.
    url
        Where to create the table.
    from_
        The format of the source, if its files do not show it.
    time_column
        The timestamp or date by which blocks are pruned and merged.
    sort_by
        The columns, `a,b`, by which rows are sorted in every file.
    key
        The columns, `a,b`, whose values identify a row, so that rows can be changed and have
        versions.
    row_ids
        Give each row an id, so that rows can be changed and have versions.
    json
        Print JSON.
    """
    wanted = Wanted(
        time_column=time_column, sort_by=listed(sort_by), key=listed(key), row_ids=row_ids
    )
    found = open_source(source, from_)
    done = import_rows(found, url, wanted)
    if json:
        show_json({"url": done.url, "version": done.version, "rows": done.rows, "from": found.form})
    elif done.rows is None:
        say(f"{done.url} was imported before, in version {done.version}: nothing was changed")
    else:
        say(
            f"imported {counted(done.rows, 'row')} from {found.form} into {done.url}, as version "
            f"{done.version}; count and hash are equal"
        )
