"""``blockstore write``: append files as one block, all of them or none."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.failure import Usage
from blockstore.cli.files.forms import Form
from blockstore.cli.files.row_files import name_rows
from blockstore.cli.files.source import sources
from blockstore.cli.files.writing import summary, write_files
from blockstore.cli.options import Json, Many
from blockstore.cli.output import say, show_json
from blockstore.cli.row_changes import listing_bad_lines, show_change
from blockstore.cli.values import job_of, pairs
from blockstore.operations.append import AppendedBlock
from blockstore.rows.results import RowsChanged
from blockstore.table import open_any


def write(
    url: str,
    /,
    *files: Annotated[str, Parameter(allow_leading_hyphen=True)],
    format_: Annotated[Form | None, Parameter(name="--format")] = None,
    null: Annotated[Many, Parameter(negative="")] = (),
    app: str | None = None,
    batch: int | None = None,
    label: Annotated[Many, Parameter(name="--label", negative="")] = (),
    evolve: Annotated[bool, Parameter(negative="")] = False,
    message: str = "",
    json: Json = False,
) -> None:
    """Append files as one block: all of them or none.

    Files that begin with `_row_id,_version` (on a table with a key with `_version`), as `query
    --row-ids` writes them, also change rows: a row with an id replaces that row, if it still has
    this version; one without is new.

    Parameters
    ----------
    url
        The table.
    files
        Parquet, CSV, TSV, JSON lines or Arrow files, compressed or not; `-` is standard input.
    format_
        The form of the files, if their names do not show it.
    null
        Another spelling of null in CSV and TSV, such as NA. An empty field is always null.
    app
        With --batch: the write happens once, however often the command is repeated.
    batch
        The number of the batch of --app.
    label
        A label of new rows, `name=value`; of a file with versions, also of the rows that keys name.
    evolve
        Add the columns of the files that the table lacks, in the same version. Types of Parquet
        and Arrow files also widen columns; those of text files do not.
    message
        A comment for the history.
    json
        Print the block as JSON.
    """
    if not files:
        raise Usage(
            "no file was given: name Parquet, CSV, TSV, JSON lines or Arrow files, or - for "
            "standard input"
        )
    job = job_of(app, batch)
    table = open_any(url)
    labels = pairs(label, "--label") or None
    with sources(files, format_) as named, listing_bad_lines(json=json):
        if evolve and name_rows(named, table.definition):
            raise Usage("--evolve is for new rows, and a file names rows: alter the table first")
        done = write_files(
            table, named, null, job=job, labels=labels, evolve=evolve, message=message, quiet=json
        )
    if isinstance(done, RowsChanged):
        show_change(done, table.url, json=json)
    elif json:
        show_json(_json(done))
    else:
        say(summary(table.url, done))


def _json(block: AppendedBlock) -> dict[str, object]:
    return {
        "ulid": block.ulid,
        "version": block.version,
        "published": block.published,
        "already": block.already,
        "rows": block.rows,
        "bytes": block.bytes,
        "chunks": block.chunks,
    }
