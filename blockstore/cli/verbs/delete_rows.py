"""``blockstore delete-rows``: delete rows by their ids or keys, in one version."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
from cyclopts import Parameter

from blockstore.cli.failure import Usage
from blockstore.cli.files.forms import Form
from blockstore.cli.files.source import FileRows, sources
from blockstore.cli.options import Json, Many
from blockstore.cli.row_changes import listing_bad_lines, show_change
from blockstore.cli.row_names import row_named
from blockstore.cli.values import job_of, pairs
from blockstore.errors import Invalid
from blockstore.format.identity import ROW_ID, Identity
from blockstore.rows.attempts import identity_of
from blockstore.rows.labelled import labels_of
from blockstore.table import Table, open_any


def delete_rows(
    url: str,
    /,
    *rows: Annotated[str, Parameter(allow_leading_hyphen=True)],
    file: str | None = None,
    format_: Annotated[Form | None, Parameter(name="--format")] = None,
    app: str | None = None,
    batch: int | None = None,
    label: Annotated[Many, Parameter(name="--label", negative="")] = (),
    message: str = "",
    json: Json = False,
) -> None:
    """Delete rows by their ids or keys. Those that do not exist are passed over.

    Their versions stay as long as the table keeps former versions of rows.

    Parameters
    ----------
    url
        A table with row ids or a key.
    rows
        Row ids, or values of the key. A key of several columns is a JSON array,
        `'["acme", "2026-01-31"]'`.
    file
        A file with the rows to delete: its columns are `_row_id`, or those of the key; with a key
        perhaps labels.
    format_
        The form of the file, if its name does not show it.
    app
        With --batch: it happens once, however often the command is repeated.
    batch
        The number of the batch of --app.
    label
        With a key: a label of the rows, `name=value`. Labels are part of the identity of a row.
    message
        A comment for the history.
    json
        Print the result as JSON, also the wrong lines of a file that is refused.
    """
    if bool(rows) == (file is not None):
        raise Usage("delete-rows needs rows or --file, one of them: name what to delete")
    job = job_of(app, batch)
    table = open_any(url)
    identity = identity_of(table.definition, "delete-rows")
    if file is None:
        wanted: object = [row_named(row, table.definition) for row in rows]
    else:
        with listing_bad_lines(json=json):
            wanted = _of_file(file, format_, table, identity)
    labels = pairs(label, "--label") or None
    done = table.delete_rows(wanted, job=job, labels=labels, message=message)
    show_change(done, table.url, json=json)


def _of_file(file: str, form: Form | None, table: Table, identity: Identity) -> pa.Table:
    definition, labels = table.definition, labels_of(table.log.state)
    schema = pa.schema(
        [
            pa.field(name, pa.int64()) if name == ROW_ID else definition.schema.field(name)
            for name in identity.columns
        ]
    )
    with sources((file,), form) as named:
        found = pa.Table.from_batches(FileRows(named, schema, (), lambda size: None, labels))
    for name in identity.columns:
        if name not in found.schema.names:
            raise Invalid(f"{file} lacks the column {name!r}, which identifies a row: add it")
        if found[name].null_count:
            raise Invalid(f"{file} has rows without {name!r}, which identifies a row: fill it in")
    said = [name for name in labels if name in found.schema.names]
    return found.select([*identity.columns, *said])
