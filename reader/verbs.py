"""The reader's verbs on the command line, found by the entry points ``blockstore.verbs``.

This module imports neither DuckDB nor the engine: the command's overview loads it for its sentence.
"""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from blockstore.cli.failure import Usage
from blockstore.cli.values import moment_ms

__all__ = ["LEAN", "READS", "query"]

LEAN = frozenset({"query"})
"""The verbs of this module that use no pandas."""
READS = frozenset({"query"})
"""The verbs of this module that change nothing."""


def query(
    *words: str,
    version: int | None = None,
    as_of: str | None = None,
    tag: str | None = None,
    output: Annotated[
        Literal["table", "csv", "tsv", "json", "parquet", "arrow"], Parameter(name=["--output", "-o"])
    ] = "table",
    to: str | None = None,
) -> None:
    """Answer SQL over snapshots of tables.

    A table's name in the SQL is the last part of its URL: `blockstore query lake/flights "select count(*) from
    flights"`. Several tables are joined by naming their URLs one after the other, the SQL last, or by naming their lake:
    the folder right below which they lie.

    Parameters
    ----------
    words
        URLs of tables, or of lakes (folders of tables), then the SQL.
    version
        The version to read, of one table.
    as_of
        Read what was visible at this moment: ISO 8601 (UTC without a zone), or milliseconds since the epoch.
    tag
        The tag whose version to read, of one table.
    output
        The form of the answer.
    to
        A file to write the answer to, instead of standard output; it appears only when it is whole.
    """
    if len(words) < 2:
        raise Usage('query takes the tables\' URLs and the SQL: blockstore query lake/flights "select …"')
    *urls, sql = words
    given = [
        name for name, one in (("--version", version), ("--as-of", as_of), ("--tag", tag)) if one is not None
    ]
    if len(given) > 1:
        raise Usage(f"{' and '.join(given)} were given, expected one of them")
    if len(urls) > 1 and given not in ([], ["--as-of"]):
        raise Usage(
            f"{given[0]} is of one table, and several are named: ask for --as-of, or for one table at a time"
        )
    moment = None if as_of is None else moment_ms(as_of, "--as-of")
    from reader.answer import deliver
    from reader.query import query as run

    deliver(run(urls, sql, version=version, as_of=moment, tag=tag), output, to)
