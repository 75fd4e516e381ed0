"""Find blocks that look like one write uploaded twice.

They have the same stream, time range, rows and chunk hashes under two ULIDs. A program that did not
know that its first attempt had succeeded, and tried again, leaves them. A person must decide: the
same rows may have been written twice on purpose.

A block of changes that names its rows, by key or id, doubles none of them: an upsert that sets a
row back to what it was, a deletion, a revert. Only rows without an id yet are new each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from blockstore.care.finding import Check, Finding, Severity
from blockstore.format.block import BlockKind, BlockMeta
from blockstore.format.identity import ROW_ID


class Duplicates:
    """Collects visible blocks; each costs the memory of a digest and a name."""

    def __init__(self) -> None:
        self._seen: dict[bytes, str] = {}
        self._again: list[tuple[str, str]] = []

    def add(self, meta: BlockMeta) -> None:
        """Add a block whose rows are read. A block without rows declares a table: not a write."""
        if not meta.rows or not _adds_rows(meta):
            return
        first = self._seen.setdefault(_signature(meta), meta.ulid)
        if first != meta.ulid:
            self._again.append((first, meta.ulid))

    def findings(self, url: str, *, indexed: bool) -> Iterator[Finding]:
        """One warning for every block that looks like an earlier one."""
        for first, ulid in self._again:
            undo = (
                f"blockstore revert {url} {ulid}"
                if indexed
                else f"blockstore mark {url} {ulid} --deletion"
            )
            yield Finding(
                severity=Severity.WARNING,
                check=Check.DUPLICATE,
                object=ulid,
                block=ulid,
                what=f"has exactly the rows of block {first}: one write, uploaded twice?",
                fix=f"if so, {undo}; if the rows were written twice on purpose, nothing",
            )


def _adds_rows(meta: BlockMeta) -> bool:
    """Whether rows of the block, written once more, would be there once more."""
    if meta.kind is BlockKind.PLAIN:
        return True
    ids = (chunk.columns.get(ROW_ID) for chunk in meta.chunks)
    return meta.kind is BlockKind.CHANGES and any(one is not None and one.nulls for one in ids)


def _signature(meta: BlockMeta) -> bytes:
    parts = [repr(meta.stream), str(meta.min_time), str(meta.max_time), str(meta.rows)]
    parts += sorted(chunk.sha256 for chunk in meta.chunks)
    return hashlib.sha256("\n".join(parts).encode()).digest()[:16]
