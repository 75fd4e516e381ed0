"""Why the reader did not answer, as errors of the tree that say what their caller does next.

They stand beside ``blockstore.errors`` because they carry what only a reader knows: after how many
seconds to come back, where in the SQL the mistake is, which names are near.
"""

from __future__ import annotations

from blockstore.errors import Invalid, NotFound, Unavailable


class Busy(Unavailable):
    """As many queries run and wait as may; come back in ``retry_after_s`` seconds."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Stale(Unavailable):
    """The table could not be looked at for longer than ``max_staleness``, and the past is not
    answered silently."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TimedOut(Unavailable):
    """The query took longer than it may."""


class Canceled(Unavailable):
    """Somebody stopped the query."""


class TooMuch(Invalid):
    """The answer has more rows or bytes than it may."""


class BadSql(Invalid):
    """The SQL cannot be answered; ``line`` and ``column`` (from 1) say where, if that is known."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class UnknownTable(NotFound):
    """No table of this name is offered; ``nearest`` are names that are near it."""

    def __init__(self, message: str, *, nearest: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.nearest = nearest
