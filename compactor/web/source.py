"""What the page needs of the process that it shows."""

from __future__ import annotations

from typing import Protocol

from blockstore.compactor.process.status import Status
from blockstore.table import Table
from blockstore.world import World

__all__ = ["PageSource"]


class PageSource(Protocol):
    """The running process. Asked from many threads."""

    @property
    def world(self) -> World:
        """The process's own."""
        ...

    def status(self) -> Status:
        """How it is doing now; made at once, without a request to the store."""
        ...

    def open(self, table: str) -> Table:
        """The process's handle on a table, by the name that its status gives it.

        Raises NotFound.
        """
        ...
