"""The shares of owners: a job counts against the limit of its owner as long as it runs here.

Rule: a job whose owner has no share left waits, and does not fail; jobs of others go before it.
"""

from __future__ import annotations

from collections.abc import Callable

from blockstore.reader.jobs.record import Request

Share = Callable[[Request], Callable[[], None] | None]
"""Takes the share of a job's owner: what gives it back, or None where none is left."""


def of_anyone(_: Request) -> Callable[[], None]:
    """The share of an owner without a limit."""
    return _nothing


class Shares:
    """Those that the jobs of one gateway hold; safe to share between threads."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._held: dict[str, Callable[[], None]] = {}

    def take(self, job: str, request: Request) -> bool:
        """Take one for a job that has none; False where none is left."""
        give_back = self._share(request)
        if give_back is None:
            return False
        self._held[job] = give_back
        return True

    def give_back(self, job: str) -> None:
        """The job does not run any more; allowed twice."""
        self._held.pop(job, _nothing)()


def _nothing() -> None:
    pass
