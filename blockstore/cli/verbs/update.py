"""``blockstore update``: give columns new values in the rows that meet a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import pyarrow as pa
from cyclopts import Parameter

from blockstore.cli.failure import Usage
from blockstore.cli.options import Json, Many
from blockstore.cli.row_changes import show_change
from blockstore.cli.row_names import value_of
from blockstore.cli.values import job_of, pairs
from blockstore.errors import Invalid
from blockstore.table import open_any


def update(
    url: str,
    /,
    *,
    set_: Annotated[Many, Parameter(name="--set", negative="")],
    where: str,
    isolation: str | None = None,
    app: str | None = None,
    batch: int | None = None,
    message: str = "",
    json: Json = False,
) -> None:
    """Give columns new values in the rows that meet a condition, in one version.

    Parameters
    ----------
    url
        A table with row ids or a key.
    set_
        A column and its new value, `column=value`, written as in a CSV file: an empty value is
        null. Give it several times for several columns.
    where
        The condition in SQL. A row for which it is null stays. `true` updates every row.
    isolation
        write-serializable: rows that come to meet the condition meanwhile stay as they are.
        serializable: they are updated too. The default is the table's property.
    app
        With --batch: it happens once, however often the command is repeated.
    batch
        The number of the batch of --app.
    message
        A comment for the history.
    json
        Print the result as JSON.
    """
    job = job_of(app, batch)
    texts = pairs(set_, "--set")
    if not texts:
        raise Usage("update sets no column: give --set column=value")
    table = open_any(url)
    schema = table.definition.schema
    strange = [name for name in texts if name not in schema.names]
    if strange:
        raise Invalid(
            f"--set names {strange[0]!r}, which the table does not have; its columns are "
            f"{', '.join(schema.names)}"
        )
    values = {name: _always(value_of(text, schema.field(name))) for name, text in texts.items()}
    done = table.update(values, where, isolation=isolation, job=job, message=message)
    show_change(done, table.url, json=json)


def _always(value: pa.Scalar) -> Callable[[pa.RecordBatch], pa.Array]:
    """A function from rows to this value for each."""
    return lambda rows: pa.repeat(value, rows.num_rows)
