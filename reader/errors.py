"""The errors of the reader: subclasses of those in ``blockstore.errors``.

They carry what only a reader knows: after how many seconds to retry, the position in the SQL, or
similar names.
"""

from __future__ import annotations

from blockstore.errors import Invalid, NotFound, Unavailable


class Busy(Unavailable):
    """The limits of running and waiting queries are reached; retry in ``retry_after_s`` seconds."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Stale(Unavailable):
    """The table could not be read for longer than ``max_staleness``; the reader refuses to serve
    stale data."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TimedOut(Unavailable):
    """The query exceeded its time limit."""


class Canceled(Unavailable):
    """The query was cancelled."""


class TooMuch(Invalid):
    """The result exceeds its limit of rows or bytes."""


class BadSql(Invalid):
    """The SQL cannot be run; ``line`` and ``column`` (from 1) are the position, if it is known."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class NotAQuery(BadSql):
    """The SQL is one statement that is not a SELECT; nothing was run."""


class UnknownTable(NotFound):
    """There is no table of this name; ``nearest`` are similar names."""

    def __init__(self, message: str, *, nearest: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.nearest = nearest


class Restricted(Invalid):
    """A policy of the caller restricts the table, and what was asked for cannot be given of a part
    of a table."""

    def __init__(self, table: str, why: str | None = None) -> None:
        super().__init__(
            why
            or f"table {table[:200]} is restricted for you by a policy: only queries read it, as "
            "it is now; its versions, files, blocks and statistics are not shown, and it is not "
            "changed"
        )
        self.table = table
