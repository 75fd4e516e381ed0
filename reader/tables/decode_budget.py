"""How much a gateway decodes of its tables before somebody asks, over all of them.

Decoded, the metas of a thousand blocks of ten columns are some megabytes, and a lake may have
hundreds of tables that nobody asks for.
"""

from __future__ import annotations

import threading

from blockstore.scan.snapshot import Snapshot

_ALL = 400_000
"""Of all tables, about 100 MB."""
_ONE = 50_000
"""Of one table."""
_AROUND = 8
"""What a block weighs besides its columns, in columns."""


class DecodeBudget:
    """Shared by the tables of a gateway; safe to share between threads."""

    def __init__(self, most: int = _ALL, most_of_one: int = _ONE) -> None:
        self._left = most
        self._most_of_one = most_of_one
        self._lock = threading.Lock()

    def swap(self, held: int, wanted: int) -> bool:
        """Give back what a table held and take what it wants, if there is room; else it holds
        nothing from now on."""
        with self._lock:
            self._left += held
            if wanted > min(self._left, self._most_of_one):
                return False
            self._left -= wanted
            return True


def cells(snapshot: Snapshot) -> int:
    """What preparing a snapshot takes, in columns of blocks."""
    return len(snapshot.blocks) * (len(snapshot.definition.schema) + _AROUND)
