"""Which rows the last entries have touched: what an operation that has read rows asks before it
commits a change of them.

Rules:
- A row is known by 64 bits: its row id, or a hash of its key. Two keys with one hash look like the
  same row, so a conflict may be seen where there is none, and never the reverse.
- An entry that adds no changes and removes nothing has touched no row; nor has one that merges, or
  that removes former versions only: every row reads as before. Another one has touched what it
  says, and any row if it does not say.
- A state knows this of the entries that it was folded from, and only of the newest of them. Of all
  others any row may have been touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from blockstore.format.block import BlockKind, BlockMeta
from blockstore.index.entry import Entry, Operation

MOST = 4_096
"""An entry names at most so many rows."""

NOTHING = b""

_KEPT_ENTRIES = 1_024
_KEPT_BYTES = 4 * 1024 * 1024

Hashes = npt.NDArray[np.uint64]


def packed(hashes: Hashes) -> bytes | None:
    """The rows with these hashes as an entry holds them: sorted, each once, 8 bytes little-endian;
    None (any row) if they are too many."""
    if len(hashes) > MOST:
        return None
    return np.unique(hashes).astype("<u8").tobytes()


def unpacked(rows: bytes) -> Hashes:
    """The hashes of ``packed``."""
    return np.frombuffer(rows, dtype="<u8")


def touched_by(
    entry: Entry, added: Iterable[BlockMeta], removed: Iterable[BlockMeta] = ()
) -> bytes | None:
    """The rows that an entry has touched that adds and removes these blocks; None: any."""
    if entry.operation == Operation.COMPACT:
        return NOTHING
    if entry.touched is not None:
        return entry.touched
    changes = any(meta.kind is BlockKind.CHANGES for meta in added)
    takes = any(meta.kind is not BlockKind.HISTORY for meta in removed)
    return None if changes or takes or entry.excepts else NOTHING


@dataclass(frozen=True, slots=True)
class Touches:
    """What the entries above ``since`` have touched, newest last."""

    since: int
    entries: tuple[tuple[int, bytes | None], ...] = ()
    """Those that have touched rows: their ids, and which rows (None: any)."""
    size: int = 0
    """The bytes of these rows."""

    def added(self, entry: int, rows: bytes | None) -> Touches:
        """With the next entry."""
        if rows == NOTHING:
            return self
        entries = (*self.entries, (entry, rows))
        since, first, size = self.since, 0, self.size + len(rows or b"")
        while len(entries) - first > _KEPT_ENTRIES or size > _KEPT_BYTES:
            since, lost = entries[first]
            size -= len(lost or b"")
            first += 1
        return Touches(since, entries[first:], size)

    def among(self, hashes: Hashes | None, version: int) -> Hashes | None:
        """Which of these rows entries above ``version`` have touched; None where that is not
        known. Of rows that are not known (None) any may be touched."""
        if version < self.since:
            return None
        touched: list[bytes] = []
        for entry, rows in reversed(self.entries):
            if entry <= version:
                break
            if rows is None or hashes is None:
                return None
            touched.append(rows)
        if hashes is None or not touched:
            return np.zeros(0, np.uint64)
        # Every lost race asks again: one search of all that was touched among ours, sorted once.
        own, others = np.unique(hashes), unpacked(b"".join(touched))
        places = np.minimum(np.searchsorted(own, others), len(own) - 1)
        return np.unique(others[own[places] == others]) if len(own) else own
