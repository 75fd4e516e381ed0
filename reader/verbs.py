"""The verbs ``query`` and ``sql`` for the parser of the command line; ``plain_query.ask`` runs it.

This module imports neither DuckDB nor the engine: the help needs neither.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.options import Many
from blockstore.reader.plain_query import Form, ask


def query(
    *words: str,
    version: int | None = None,
    as_of: str | None = None,
    tag: str | None = None,
    output: Annotated[Form, Parameter(name=["--output", "-o"])] = "table",
    to: str | None = None,
    row_ids: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Run SQL over snapshots of tables.

    A table's name in the SQL is the last part of its URL: `blockstore query lake/flights "select
    count(*) from flights"`. Several tables are joined by giving their URLs one after the other, the
    SQL last, or the URL of their lake: the folder that directly contains them.

    Parameters
    ----------
    words
        URLs of tables or of lakes (folders of tables), then the SQL.
    version
        The version to read; for one table.
    as_of
        Read what was visible at this moment: ISO 8601 (UTC without a zone), or milliseconds since
        the epoch.
    tag
        The tag whose version to read; for one table.
    output
        The form of the result.
    to
        A file for the result, instead of standard output; it appears only when it is complete.
    row_ids
        Begin each row with its `_row_id` and `_version` (on a table with a key with `_version`), so
        that the file can be changed and written back with `write`. The rows must be those of one
        table.
    """
    ask(words, version=version, as_of=as_of, tag=tag, output=output, to=to, row_ids=row_ids)


def sql(
    *words: str,
    output: Annotated[Form, Parameter(name=["--output", "-o"])] = "table",
    set_: Annotated[Many, Parameter(name="--set", negative="")] = (),
    app: str | None = None,
    batch: int | None = None,
    message: str = "",
) -> None:
    """Run SQL that reads and writes: INSERT, UPDATE, DELETE, MERGE, CREATE TABLE and more.

    `blockstore sql lake "update flights set dep_delay = 0 where dep_delay < 0"`. Without SQL the
    statements come from standard input; at a terminal they are typed, each with `;` at its end.
    Each statement is one version of one table, or nothing.

    Parameters
    ----------
    words
        URLs of tables or of lakes (folders of tables), then perhaps the SQL.
    output
        The form of rows; with `json` the result of a statement is JSON too.
    set_
        The value of a parameter, `name=value`, which is `$name` in the SQL.
    app
        With --batch: the statement happens once, however often the command is repeated.
    batch
        The number of the batch of --app.
    message
        A comment for the history.
    """
    from blockstore.cli.values import job_of, pairs
    from blockstore.reader.statements import shell

    shell.run(
        words,
        output=output,
        job=job_of(app, batch),
        message=message,
        parameters=pairs(set_, "--set"),
    )
