"""What the live blocks hold besides current rows: which rows of each block are hidden, and of which
rows an older version is still there.

Rules (design 8.5):
- What is hidden is found by ``current.py``, for all blocks of a snapshot, and never changes again:
  a row that is hidden stays hidden.
- P of a row: no live block outside of some holds an older version of it. It is judged row by row,
  by the identities that were read. Blocks that come later bring newer versions only; the commit
  checks that (``rows/judged.py``).
- Of blocks of changes that are merged, superseded rows are left out, and tombstones for which P
  holds. What is left is plain if it holds no tombstone and P holds for all of it.
- A stream of which a block cannot be read is not judged at all.
- Former versions (history) are outside of all this: no query sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.block import BlockKind, StreamKey
from blockstore.format.identity import DELETED, VERSION, Identity
from blockstore.lazy import once
from blockstore.scan.candidates import changes_of
from blockstore.scan.chunk import Positions, ScanChunk
from blockstore.scan.current import (
    Hidden,
    Newest,
    ReadColumns,
    columns_of,
    hidden_in,
    newest_among,
    numbers,
)
from blockstore.scan.execute import read_plan
from blockstore.scan.identities import identities
from blockstore.scan.plan import plan_scan
from blockstore.scan.resolve import columns_reader
from blockstore.scan.snapshot import Snapshot
from blockstore.world import World

Places = npt.NDArray[np.int64]
"""Identities, by their places among those of ``Newest``."""

LeftOut = Mapping[str, Positions]
"""Rows by the key of their chunk, sorted; chunks without any are not named."""

_NONE = Hidden(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows of a block of changes: its chunks, one after the other."""

    chunks: tuple[tuple[str, int], ...]
    """Their keys and rows."""
    places: Places
    versions: npt.NDArray[np.int64]
    deleted: npt.NDArray[np.bool_]

    def by_chunk(self, mask: npt.NDArray[np.bool_]) -> dict[str, Positions]:
        """The positions of rows in their chunks."""
        found, first = {}, 0
        for key, rows in self.chunks:
            positions = np.flatnonzero(mask[first : first + rows])
            if len(positions):
                found[key] = positions
            first += rows
        return found


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left of some blocks once they are rewritten."""

    kind: BlockKind
    left_out: LeftOut
    judged: int | None = None
    """The newest version for which P was judged; None if nothing depends on P."""

    @property
    def rows(self) -> int:
        """How many rows are left out."""
        return sum(len(positions) for positions in self.left_out.values())


@dataclass(frozen=True)
class StreamShadows:
    """One stream that has blocks of changes."""

    newest: Newest
    changes: Mapping[str, Changes]
    """By their ULIDs."""
    hidden: Mapping[str, Mapping[str, Hidden]]
    """By the ULIDs of the plain blocks, and the keys of their chunks."""

    def rest_of(self, ulids: Collection[str]) -> Rest:
        """What is left of these blocks of changes."""
        is_held = self._held_outside(ulids)
        left_out: dict[str, Positions] = {}
        plain, dropped, shown = True, 0, 0
        for block in (self.changes[ulid] for ulid in ulids):
            superseded, held = self._is_superseded(block), is_held[block.places]
            gone = ~superseded & block.deleted & ~held
            kept = ~(superseded | gone)
            left_out |= block.by_chunk(~kept)
            plain = plain and not np.any(kept & (held | block.deleted))
            dropped = max(dropped, int(block.versions[gone].max(initial=0)))
            shown = max(shown, int(block.versions[kept].max(initial=0)))
        judged = max(dropped, shown) if plain else dropped
        return Rest(BlockKind.PLAIN if plain else BlockKind.CHANGES, left_out, judged or None)

    def uncovered_by(self, ulids: Collection[str]) -> LeftOut:
        """Which rows of these blocks are the newest of theirs and hide older ones in others."""
        is_held = self._held_outside(ulids)
        found: dict[str, Positions] = {}
        for block in (self.changes[ulid] for ulid in ulids if ulid in self.changes):
            found |= block.by_chunk(~self._is_superseded(block) & is_held[block.places])
        return found

    def newest_of(self, ulids: Collection[str]) -> int:
        """The highest version in these blocks of changes."""
        held = [self.changes[ulid].versions for ulid in ulids if ulid in self.changes]
        return max((int(versions.max(initial=0)) for versions in held), default=0)

    def hidden_rows(self, ulid: str) -> int:
        """How many rows of a block are hidden."""
        if ulid in self.changes:
            block = self.changes[ulid]
            return int(np.count_nonzero(self._is_superseded(block) | block.deleted))
        return sum(len(one.positions) for one in self.hidden.get(ulid, {}).values())

    def _is_superseded(self, block: Changes) -> npt.NDArray[np.bool_]:
        return np.asarray(block.versions < self.newest.versions[block.places])

    def _older(self, ulid: str) -> Places:
        """Of which identities a block holds older versions than the newest."""
        if ulid in self.changes:
            block = self.changes[ulid]
            return np.asarray(block.places[self._is_superseded(block)])
        chunks = [one.rows for one in self.hidden.get(ulid, {}).values()]
        return np.concatenate(chunks) if chunks else np.zeros(0, dtype=np.int64)

    def _held_outside(self, ulids: Collection[str]) -> npt.NDArray[np.bool_]:
        """Whether other blocks hold an older version of each identity. A block has an identity
        once."""
        holders = self._holders.copy()
        for ulid in ulids:
            holders[self._older(ulid)] -= 1
        return np.asarray(holders > 0)

    @once
    def _holders(self) -> Places:
        """How many blocks hold an older version of each identity."""
        count = np.zeros(len(self.newest.values), dtype=np.int64)
        for ulid in (*self.changes, *self.hidden):
            count[self._older(ulid)] += 1
        return count


@dataclass(frozen=True, kw_only=True)
class Shadows:
    """All streams of a snapshot."""

    streams: Mapping[StreamKey, StreamShadows] = field(default_factory=dict)
    """Those that have blocks of changes."""
    unread: Mapping[StreamKey, tuple[str, str]] = field(default_factory=dict)
    """Streams that were not judged, each with a block that cannot be read, and why."""

    def hidden_rows(self, stream: StreamKey, ulid: str) -> int:
        """How many rows of a block are hidden."""
        own = self.streams.get(stream)
        return 0 if own is None else own.hidden_rows(ulid)

    @property
    def hiding(self) -> frozenset[str]:
        """The plain blocks that have hidden rows."""
        return frozenset(ulid for own in self.streams.values() for ulid in own.hidden)

    def rest_of(self, stream: StreamKey, kind: BlockKind, ulids: Collection[str]) -> Rest:
        """What is left of blocks of one kind once they are rewritten."""
        own = self.streams.get(stream)
        if kind is BlockKind.CHANGES:
            assert own is not None, "a stream with blocks of changes is judged"
            return own.rest_of(ulids)
        if kind is BlockKind.HISTORY or own is None:
            return Rest(kind, {})
        left_out = {
            key: one.positions for ulid in ulids for key, one in own.hidden.get(ulid, {}).items()
        }
        return Rest(kind, left_out)


NO_SHADOWS = Shadows()


class ShadowCache:
    """What was found at the last look: valid for a chunk as long as its stream has the same blocks
    of changes."""

    def __init__(self) -> None:
        self._streams: dict[StreamKey, tuple[frozenset[str], _Judged]] = {}

    def get(self, stream: StreamKey, changes: Sequence[ScanChunk]) -> _Judged | None:
        """What is known with these chunks of changes."""
        keys, known = self._streams.get(stream, (frozenset(), None))
        return known if keys == {chunk.key for chunk in changes} else None

    def keep(self, found: Mapping[StreamKey, tuple[Sequence[ScanChunk], _Judged]]) -> None:
        """Keep this instead of all that was kept."""
        self._streams = {
            stream: (frozenset(chunk.key for chunk in changes), judged)
            for stream, (changes, judged) in found.items()
        }


@dataclass(frozen=True, slots=True)
class _Judged:
    newest: Newest
    changes: Mapping[str, Changes]
    chunks: Mapping[str, Hidden]
    """Of plain chunks, by their keys; those without hidden rows too."""


def look(
    bucket: ReadBucket,
    world: World,
    snapshot: Snapshot,
    cache: ShadowCache,
    *,
    skip: Callable[[StreamKey], bool] = lambda _: False,
) -> Shadows:
    """Read which rows of a snapshot are hidden, of all streams but those to ``skip``.

    Raises Unavailable, AccessDenied; a block that is damaged is named in the result.
    """
    identity = snapshot.definition.identity
    if identity is None or not changes_of(snapshot):
        return NO_SHADOWS
    plan = plan_scan(snapshot)
    read = columns_reader(plan, lambda columns: read_plan(bucket, columns, world))
    changes, plain = _by_stream(plan.changes), _by_stream(plan.chunks)
    kept: dict[StreamKey, tuple[Sequence[ScanChunk], _Judged]] = {}
    unread: dict[StreamKey, tuple[str, str]] = {}
    for stream, own in changes.items():
        if skip(stream):
            continue
        others = [one for one in plain.get(stream, ()) if one.kind is BlockKind.PLAIN]
        try:
            kept[stream] = own, _judge(own, others, identity, read, cache.get(stream, own))
        except (Corrupt, ObjectMissing):
            unread[stream] = _culprit([*own, *others], identity, read)
    cache.keep(kept)
    return Shadows(
        streams={
            stream: StreamShadows(
                judged.newest, judged.changes, _by_block(judged.chunks, plain.get(stream, ()))
            )
            for stream, (_, judged) in kept.items()
        },
        unread=unread,
    )


def _judge(
    changes: Sequence[ScanChunk],
    plain: Sequence[ScanChunk],
    identity: Identity,
    read: ReadColumns,
    known: _Judged | None,
) -> _Judged:
    newest, blocks = (
        _changes(changes, identity, read) if known is None else (known.newest, known.changes)
    )
    before = {} if known is None else known.chunks
    fresh = [chunk for chunk in plain if chunk.key not in before]
    shadowed = [chunk for chunk in fresh if newest.may_hide(chunk, identity)]
    found = {chunk.key: _NONE for chunk in fresh}
    found |= hidden_in(shadowed, {chunk.stream: newest for chunk in plain}, identity, read)
    found |= {chunk.key: before[chunk.key] for chunk in plain if chunk.key in before}
    return _Judged(newest, blocks, found)


def _changes(
    chunks: Sequence[ScanChunk], identity: Identity, read: ReadColumns
) -> tuple[Newest, dict[str, Changes]]:
    rows = list(read(chunks, (*identity.columns, VERSION, DELETED)))
    values = pa.concat_arrays([identities(columns_of(one, identity)) for one in rows])
    versions = numbers(one[VERSION] for one in rows)
    deleted = numbers(one[DELETED] for one in rows).astype(bool)
    newest, _, places = newest_among(values, versions, deleted)
    blocks, first = {}, 0
    for ulid, members in groupby(chunks, key=attrgetter("block")):
        own = tuple((chunk.key, chunk.file.rows) for chunk in members)
        last = first + sum(count for _, count in own)
        part = slice(first, last)
        blocks[ulid] = Changes(own, places[part], versions[part], deleted[part])
        first = last
    return newest, blocks


def _culprit(chunks: Sequence[ScanChunk], identity: Identity, read: ReadColumns) -> tuple[str, str]:
    """The first block that cannot be read, and why."""
    for chunk in chunks:
        try:
            for rows in read([chunk], (*identity.columns, VERSION)):
                columns_of(rows, identity)
        except (Corrupt, ObjectMissing) as error:
            return chunk.block, str(error)
    return chunks[0].block, "its rows could not be read a moment ago: try again"


def _by_stream(chunks: Iterable[ScanChunk]) -> dict[StreamKey, list[ScanChunk]]:
    found: dict[StreamKey, list[ScanChunk]] = {}
    for chunk in chunks:
        found.setdefault(chunk.stream, []).append(chunk)
    return found


def _by_block(
    hidden: Mapping[str, Hidden], chunks: Iterable[ScanChunk]
) -> dict[str, dict[str, Hidden]]:
    found: dict[str, dict[str, Hidden]] = {}
    for chunk in chunks:
        if chunk.key in hidden and len(hidden[chunk.key].positions):
            found.setdefault(chunk.block, {})[chunk.key] = hidden[chunk.key]
    return found
