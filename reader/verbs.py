"""The verb ``query`` as the command line's parser knows it; what it does is ``plain_query.ask``.

This module imports neither DuckDB nor the engine: its help needs none.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.reader.plain_query import Form, ask


def query(
    *words: str,
    version: int | None = None,
    as_of: str | None = None,
    tag: str | None = None,
    output: Annotated[Form, Parameter(name=["--output", "-o"])] = "table",
    to: str | None = None,
) -> None:
    """Answer SQL over snapshots of tables.

    A table's name in the SQL is the last part of its URL: `blockstore query lake/flights "select
    count(*) from flights"`. Several tables are joined by naming their URLs one after the other, the
    SQL last, or by naming their lake: the folder right below which they lie.

    Parameters
    ----------
    words
        URLs of tables, or of lakes (folders of tables), then the SQL.
    version
        The version to read, of one table.
    as_of
        Read what was visible at this moment: ISO 8601 (UTC without a zone), or milliseconds since
        the epoch.
    tag
        The tag whose version to read, of one table.
    output
        The form of the answer.
    to
        A file to write the answer to, instead of standard output; it appears only when it is whole.
    """
    ask(words, version=version, as_of=as_of, tag=tag, output=output, to=to)
