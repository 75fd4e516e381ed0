"""``blockstore upsert``: make each row of files the current one of its key, in one version."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.files.forms import Form
from blockstore.cli.options import Json, Many
from blockstore.cli.row_changes import from_files
from blockstore.cli.values import job_of, pairs
from blockstore.rows.results import RowsChanged
from blockstore.table import Table


def upsert(
    url: str,
    /,
    *files: Annotated[str, Parameter(allow_leading_hyphen=True)],
    format_: Annotated[Form | None, Parameter(name="--format")] = None,
    null: Annotated[Many, Parameter(negative="")] = (),
    duplicates: str = "fail",
    sequence_by: str | None = None,
    app: str | None = None,
    batch: int | None = None,
    label: Annotated[Many, Parameter(name="--label", negative="")] = (),
    message: str = "",
    json: Json = False,
) -> None:
    """Make each row of files the current one of its key: new keys are inserted, others replaced.

    Nothing is read, and nothing conflicts: the later of two upserts wins. To replace rows only if
    nobody changed them since you read them, download them with --row-ids and use write.

    Parameters
    ----------
    url
        A table with a key.
    files
        Parquet, CSV, TSV, JSON lines or Arrow files, compressed or not; `-` is standard input.
    format_
        The form of the files, if their names do not show it.
    null
        Another spelling of null in CSV and TSV, such as NA. An empty field is always null.
    app
        With --batch: it happens once, however often the command is repeated.
    batch
        The number of the batch of --app.
    duplicates
        What to do with a key that occurs twice: fail, or last, which keeps its last row.
    sequence_by
        The column whose highest value counts where a key occurs twice.
    label
        A label of the new block, `name=value`. Labels are part of the identity of a row.
    message
        A comment for the history.
    json
        Print the result as JSON, also the wrong lines of a file that is refused.
    """
    job, labels = job_of(app, batch), pairs(label, "--label") or None

    def change(table: Table, rows: object) -> RowsChanged:
        return table.upsert(
            rows,
            duplicates=duplicates,
            sequence_by=sequence_by,
            job=job,
            labels=labels,
            message=message,
        )

    from_files(url, files, format_, null, change, json=json)
