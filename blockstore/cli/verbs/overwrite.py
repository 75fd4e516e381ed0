"""``blockstore overwrite``: replace all rows, or those that meet a condition, by the rows of
files."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.changed import changed_json, summary
from blockstore.cli.failure import Usage
from blockstore.cli.files.forms import Form
from blockstore.cli.files.source import FileRows, sources
from blockstore.cli.options import DryRun, Json, Many
from blockstore.cli.output import say, show_json
from blockstore.cli.progress import progress
from blockstore.cli.values import job_of, pairs
from blockstore.errors import Invalid
from blockstore.table import open_any


def overwrite(
    url: str,
    /,
    *files: Annotated[str, Parameter(allow_leading_hyphen=True)],
    where: str | None = None,
    format_: Annotated[Form | None, Parameter(name="--format")] = None,
    null: Annotated[Many, Parameter(negative="")] = (),
    app: str | None = None,
    batch: int | None = None,
    label: Annotated[Many, Parameter(name="--label", negative="")] = (),
    isolation: str | None = None,
    read_version: int | None = None,
    dry_run: DryRun = False,
    message: str = "",
    json: Json = False,
) -> None:
    """Replace rows by the rows of files, in one version.

    Parameters
    ----------
    url
        The table.
    files
        Parquet, CSV, TSV, JSON lines or Arrow files, compressed or not; `-` is standard input.
    where
        Replace only the rows for which this SQL condition is true. Every new row must meet it.
    format_
        The form of the files, if their names do not show it.
    null
        Another spelling of null in CSV and TSV, such as NA. An empty field is always null.
    app
        With --batch: the overwrite happens once, however often the command is repeated.
    batch
        The number of the batch of --app.
    label
        A label of the new block, `name=value`.
    isolation
        What to do with rows that others append meanwhile. write-serializable: they stay.
        serializable: the overwrite fails with a conflict; where rows have ids or a key, it is
        planned again with these rows. The default is the table's property.
    read_version
        The version from which the new rows were computed. Changes since then count as changes made
        meanwhile.
    dry_run
        Read the files, show what would be replaced, and change nothing.
    message
        A comment for the history.
    json
        Print the result as JSON.
    """
    if not files:
        raise Usage(
            "no file was given: name Parquet, CSV, TSV, JSON lines or Arrow files, or - for "
            "standard input; to remove rows use delete"
        )
    job = job_of(app, batch)
    table = open_any(url)
    labels = pairs(label, "--label") or None
    with sources(files, format_) as named:
        total = sum(source.bytes for source in named)
        with progress(f"overwriting {table.name}", total, quiet=json) as advance:
            rows = FileRows(named, table.definition.schema, null, advance)
            try:
                done = table.overwrite(
                    iter(rows),
                    where=where,
                    job=job,
                    labels=labels,
                    isolation=isolation,
                    read_version=read_version,
                    dry_run=dry_run,
                    message=message,
                )
            except Invalid as error:
                raise rows.placed(error) from error
    if json:
        show_json(changed_json(done))
    else:
        say(summary(done, table.url))
