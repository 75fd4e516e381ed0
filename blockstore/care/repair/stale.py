"""An index entry above a gap: show it, and remove it if a person says so.

A table was restored from a copy, and a writer that still had the old history created an entry
between its check and its PUT. The bytes do not show whether that happened, or whether the store has
lost the entries below: a person decides.

Rules:
- Only an entry with a gap directly below it, above the boundary, is removed. Without a gap the
  chain decides.
- After the DELETE the index is listed again. If the history has grown past the entry meanwhile, the
  same bytes are stored again: the entry above names them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.errors import AlreadyExists, Conflict, Corrupt, Invalid, NotFound, ObjectMissing
from blockstore.index.boundary import Boundary
from blockstore.index.entry import decode_entry
from blockstore.index.read import IndexReader
from blockstore.names import entry_key
from blockstore.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleEntry:
    """An entry above a gap."""

    id: int
    data: bytes
    missing: tuple[int, int]
    """The gap directly below it: first and last entry."""
    what: str
    """What it says, who wrote it and when."""
    reader: IndexReader

    def remove(self, bucket: Bucket) -> None:
        """Remove the entry. Raises Conflict if the history has reached it meanwhile."""
        if _gap_below(self.reader, self.id) is None:
            raise self._reached()
        bucket.delete([entry_key(self.id)])
        after = self.reader.entries(self.reader.boundary.read())
        if self.id - 1 in after and self.id + 1 in after:
            with suppress(AlreadyExists):
                bucket.put_if_absent(entry_key(self.id), self.data)
            raise self._reached()

    def _reached(self) -> Conflict:
        return Conflict(
            f"index entry {self.id} was not removed: the table's history has grown past it "
            "meanwhile, and every reader skips it"
        )


def look_at_stale(bucket: ReadBucket, world: World, entry: int) -> StaleEntry:
    """Return the entry, if there is a gap directly below it.

    Raises NotFound if it does not exist, and Invalid if there is no gap.
    """
    reader = IndexReader(bucket, world, Boundary(bucket, world))
    try:
        found = bucket.get(entry_key(entry))
        written_ms = bucket.head(entry_key(entry)).modified_ms
    except ObjectMissing:
        raise NotFound(
            f"{bucket.url} has no index entry {entry} ({entry_key(entry)}): nothing to remove"
        ) from None
    gap = _gap_below(reader, entry)
    if gap is None:
        raise Invalid(
            f"index entry {entry} of {bucket.url} follows entry {entry - 1}, expected a gap below "
            "it: the chain shows readers whether it counts, so it must not be removed"
        )
    named = str(gap[0]) if gap[0] == gap[1] else f"{gap[0]} to {gap[1]}"
    return StaleEntry(
        id=entry,
        data=found.data,
        missing=gap,
        what=f"{_described(found.data, entry)}, stored {_iso(written_ms)}; {named} missing below "
        "it: "
        "remove it only if the table was restored from a copy, not if the store has lost entries",
        reader=reader,
    )


def _gap_below(reader: IndexReader, entry: int) -> tuple[int, int] | None:
    """Return the gap directly below an entry, or None."""
    boundary = reader.boundary.read()
    below = max((one for one in reader.entries(boundary) if one < entry), default=boundary)
    return (below + 1, entry - 1) if below < entry - 1 else None


def _described(data: bytes, entry: int) -> str:
    try:
        found = decode_entry(data, entry_id=entry)
    except Corrupt as error:
        return f"an entry that cannot be read ({error})"
    rows = sum(block.meta.rows for block in found.add)
    what = f"{found.operation} of {rows:,} rows" if found.add else str(found.operation)
    return (
        f"{what} by {found.by or 'an unnamed program'}, commit {found.commit}, {_iso(found.time)}"
    )


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
