"""An entry above a gap, which a writer of a replaced history left: shown, and removed on a person's
word.

A table was put back from a copy, and a writer that still held the old history created an entry in
the moment between its look and its PUT. Its bytes do not say whether it is that, or whether the
store has lost the entries below it: a person decides.

Rules:
- Only an entry with a missing one below it, above the boundary, is removed. Without a gap the chain
  has decided already.
- After the DELETE the listing is read again. Where the history has meanwhile grown past the entry,
  the same bytes are put back: the entry above names them.
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
    """The gap right below it, first and last."""
    what: str
    """Who wrote it, when, and what it says."""
    reader: IndexReader

    def remove(self, bucket: Bucket) -> None:
        """Remove the entry.

        Raises Conflict where the history has reached it since it was looked at.
        """
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
            f"index entry {self.id} stays: the table's history has grown past it meanwhile, and "
            "every reader passes over it"
        )


def look_at_stale(bucket: ReadBucket, world: World, entry: int) -> StaleEntry:
    """The entry, if it is above a gap.

    Raises NotFound if it is not there, and Invalid if the entry below it is.
    """
    reader = IndexReader(bucket, world, Boundary(bucket, world))
    try:
        found = bucket.get(entry_key(entry))
        written_ms = bucket.head(entry_key(entry)).modified_ms
    except ObjectMissing:
        raise NotFound(
            f"{bucket.url} has no index entry {entry} ({entry_key(entry)}): there is nothing to "
            "remove"
        ) from None
    gap = _gap_below(reader, entry)
    if gap is None:
        raise Invalid(
            f"index entry {entry} of {bucket.url} follows on entry {entry - 1}, expected a gap "
            "below it: every reader decides by "
            "the chain whether it counts, and it is not to be removed"
        )
    named = str(gap[0]) if gap[0] == gap[1] else f"{gap[0]} to {gap[1]}"
    return StaleEntry(
        id=entry,
        data=found.data,
        missing=gap,
        what=f"{_described(found.data, entry)}, stored {_iso(written_ms)}; below it {named} "
        "missing: remove it if the table was "
        "put back from a copy, and not if the store has lost what is missing",
        reader=reader,
    )


def _gap_below(reader: IndexReader, entry: int) -> tuple[int, int] | None:
    """What is missing right below an entry; None where nothing is."""
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
        f"{what} by {found.by or 'nobody who said so'}, commit {found.commit}, {_iso(found.time)}"
    )


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
