"""How much metadata of all tables a gateway decodes before a query needs it.

The decoded metas of a thousand blocks with ten columns take some megabytes, and a lake may have
hundreds of tables without queries.
"""

from __future__ import annotations

import threading

from blockstore.scan.snapshot import Snapshot

_ALL = 400_000
"""For all tables, about 100 MB."""
_ONE = 50_000
"""For one table."""
_AROUND = 8
"""The cost of a block besides its columns, in columns."""


class DecodeBudget:
    """Shared by the tables of a gateway; safe to share between threads."""

    def __init__(self, most: int = _ALL, most_of_one: int = _ONE) -> None:
        self._left = most
        self._most_of_one = most_of_one
        self._lock = threading.Lock()

    def swap(self, held: int, wanted: int) -> bool:
        """Return what a table held and take what it wants. False if that exceeds the budget: the
        table then holds nothing."""
        with self._lock:
            self._left += held
            if wanted > min(self._left, self._most_of_one):
                return False
            self._left -= wanted
            return True


def cells(snapshot: Snapshot) -> int:
    """The cost of preparing a snapshot, in columns of blocks."""
    return len(snapshot.blocks) * (len(snapshot.definition.schema) + _AROUND)
