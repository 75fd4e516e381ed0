"""The blocks of a snapshot that can hold rows of a scan: by time range, labels and statistics, over
columns.

Rules:
- A block's rows are in [min_time, max_time), milliseconds of the time column rounded down. The test
  is exact: a block is left out only if no time in its range can meet the condition.
- A stream's labels are constants, so the condition is decided for each stream once.
- Only blocks that stay are made into objects.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from blockstore.format.block import BlockKind, BlockMeta
from blockstore.format.definition import Definition
from blockstore.format.names_now import time_column_of
from blockstore.index.blocks import Blocks
from blockstore.index.derived import Arrays, Mask, Places
from blockstore.index.rows import KEPT, LiveBlock
from blockstore.predicate import Predicate
from blockstore.predicate.nodes import Column
from blockstore.predicate.prune import Bounds
from blockstore.scan.sieve import sieve
from blockstore.scan.snapshot import Snapshot, labels_of

A = TypeVar("A")

_MS_NS = 1_000_000
_INT64 = np.iinfo(np.int64)
_KINDS = {kind: number for number, kind in enumerate(BlockKind)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A block that stays, with what the snapshot says of its rows."""

    meta: BlockMeta
    sources: frozenset[str] | None = None
    excepted: frozenset[str] | None = None
    version: int | None = None
    first_row_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The blocks that stay, and how many were left out, by reason."""

    live: Blocks
    places: Places
    """Those that stay of the blocks that the index names, by their rows of ``live.table()``."""
    listed: tuple[Candidate, ...]
    """Those that only a listing shows."""
    total: int
    by_time: int
    by_labels: int
    excepted: int
    """Blocks all of whose sources the snapshot hides."""
    chunks_by_statistics: int
    """Chunks of the blocks that were left out by their statistics."""

    def __iter__(self) -> Iterator[Candidate]:
        """The blocks that stay, in the order of their ULIDs; where there are many, few of them are
        in memory at once."""
        live = map(_candidate, self.live.each(self.places))
        return (
            heapq.merge(live, self.listed, key=lambda one: one.meta.ulid) if self.listed else live
        )

    def at(self, place: int) -> Candidate:
        """The block at one of ``places``."""
        return _candidate(self.live.take([int(self.places[place])])[0])


def candidates(snapshot: Snapshot, predicate: Predicate, labels: tuple[str, ...]) -> Candidates:
    """Return the blocks that can hold rows for which ``predicate`` is true.

    ``labels`` are the label columns.
    """
    time_ms = time_hull_ms(snapshot, predicate)
    total, by_time, by_labels, chunks = len(snapshot), 0, 0, 0
    if snapshot.blocks.base.root_version is not None:
        from blockstore.scan.leaves import near  # few tables have them

        found = near(
            snapshot.blocks,
            snapshot.definition,
            predicate,
            time_ms,
            lambda stream: (
                set(labels).isdisjoint(predicate.columns)
                or _may_stream(predicate, labels_of(stream), labels)
            ),
        )
        by_time, by_labels, chunks = found.by_time, found.by_labels, found.chunks
        snapshot = replace(snapshot, blocks=found.blocks)
    frame = snapshot.blocks.table()
    in_time, in_stream = in_range(frame, predicate, labels, time_ms)
    sieved = sieve(snapshot, predicate, in_time & in_stream)
    places = np.flatnonzero(sieved.may)
    excepted = _excepted(snapshot.blocks, frame, places)
    listed = _listed(snapshot, predicate, labels, time_ms)
    return Candidates(
        live=snapshot.blocks,
        places=np.setdiff1d(places, excepted, assume_unique=True) if len(excepted) else places,
        listed=tuple(sorted(listed, key=lambda block: block.meta.ulid)),
        total=total,
        by_time=by_time + int(np.count_nonzero(~in_time)) + len(snapshot.listed) - len(listed),
        by_labels=by_labels + int(np.count_nonzero(in_time & ~in_stream)),
        excepted=len(excepted),
        chunks_by_statistics=chunks + sieved.chunks,
    )


def in_range(
    frame: pa.Table, predicate: Predicate, labels: tuple[str, ...], time_ms: tuple[int, int]
) -> tuple[Mask, Mask]:
    """For each block of ``frame`` whether its times can meet the condition, whose hull is
    ``time_ms``, and whether its labels can."""
    return _in_time(frame, time_ms), _in_stream(frame, predicate, labels)


def _candidate(block: LiveBlock) -> Candidate:
    return Candidate(
        meta=block.meta,
        excepted=block.excepted.intersection(block.meta.sources) or None,
        version=block.version,
        first_row_id=block.first_row_id,
    )


def _excepted(blocks: Blocks, frame: pa.Table, places: Places) -> Places:
    """Those of the rows whose blocks have no source that is not excepted."""
    column = frame["excepted"]
    if column.null_count == len(column):
        return places[:0]
    valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    some = places[valid[places]]
    hidden = [block.excepted.issuperset(block.meta.sources) for block in blocks.each(some)]
    return some[np.array(hidden, dtype=bool)]


def changes_of(snapshot: Snapshot) -> tuple[Candidate, ...]:
    """Return all blocks of changes, which hide rows of others whatever a condition is."""
    blocks, changes = _changes(snapshot)
    return tuple(map(_of_changes, blocks.take(np.flatnonzero(changes).tolist())))


def of_changes(
    snapshot: Snapshot, name: str, make: Callable[[Candidate], Sequence[A]]
) -> Iterator[A]:
    """Yield what ``make`` returns for each block of changes. Where there are few, it is kept under
    ``name`` with each block that stays."""
    blocks, changes = _changes(snapshot)
    if np.count_nonzero(changes) > KEPT:
        for block in changes_of(snapshot):
            yield from make(block)
    elif changes.any():
        (made,) = blocks.derived(name, snapshot.definition, _Each(make), changes)
        for each in made[changes]:
            yield from each


def _changes(snapshot: Snapshot) -> tuple[Blocks, Mask]:
    """The blocks without leaves that have no changes, and which of them are changes."""
    blocks, definition = snapshot.blocks, snapshot.definition
    if definition.identity is not None:
        blocks, _ = blocks.summed(lambda leaf: leaf.changes == 0)
    return blocks, are(BlockKind.CHANGES, blocks, definition)


def are(kind: BlockKind, blocks: Blocks, definition: Definition) -> Mask:
    """Return for each row of ``blocks.table()`` whether it is a block of this kind."""
    if definition.identity is None:
        return np.full(len(blocks), kind is BlockKind.PLAIN)
    every = np.ones(len(blocks), dtype=bool)
    (kinds,) = blocks.derived("kinds", definition, _Kinds(), every)
    return np.asarray(kinds == _KINDS[kind])


def _of_changes(block: LiveBlock) -> Candidate:
    return Candidate(meta=block.meta, version=block.version, first_row_id=block.first_row_id)


class _Each(Generic[A]):
    """Makes an array of what a function returns for each block of changes."""

    def __init__(self, make: Callable[[Candidate], Sequence[A]]) -> None:
        self._make = make

    def of_blocks(self, blocks: Sequence[LiveBlock]) -> Arrays:
        made = np.empty(len(blocks), dtype=object)
        for place, block in enumerate(blocks):
            made[place] = self._make(_of_changes(block))
        return (made,)

    def of_rows(self, rows: pa.Table) -> Arrays | None:
        return None


class _Kinds:
    """Makes an array, by block: the number of its kind."""

    def of_blocks(self, blocks: Sequence[LiveBlock]) -> Arrays:
        return (np.array([_KINDS[block.meta.kind] for block in blocks], dtype=np.int8),)

    def of_rows(self, rows: pa.Table) -> Arrays | None:
        from blockstore.index.documents import read_documents  # of a checkpoint's blocks alone

        kinds = pa.struct([("rows", pa.string())])
        documents = read_documents(rows, pa.field("blockstore", kinds))
        if documents is None:
            return None
        import pyarrow.compute as pc

        named = pc.fill_null(pc.struct_field(documents, [0]), BlockKind.PLAIN.value)
        number = pc.index_in(named, value_set=pa.array([one.value for one in _KINDS]))
        if number.null_count:
            return None
        return (np.asarray(number.to_numpy(), dtype=np.int8),)


def _listed(
    snapshot: Snapshot, predicate: Predicate, labels: tuple[str, ...], time_ms: tuple[int, int]
) -> list[Candidate]:
    first, last = time_ms
    definition, found = snapshot.definition, []
    for block in snapshot.listed:
        meta = block.meta
        # A block of another writer may have the times of another column, or of its creation, which
        # do not bound ours.
        other = time_column_of(meta, definition) != definition.time_column
        in_time = other or (meta.min_time <= last and meta.max_time > first)
        if in_time and _may_stream(predicate, meta.labels, labels):
            found.append(Candidate(meta=meta, sources=block.only_sources))
    return found


def time_hull_ms(snapshot: Snapshot, predicate: Predicate) -> tuple[int, int]:
    """Return the first and the last millisecond that matching rows can have."""
    name = snapshot.definition.time_column
    if name is None:
        return int(_INT64.min), int(_INT64.max)
    hull = predicate.hull(name)
    if hull.empty:
        return int(_INT64.max), int(_INT64.min)
    first = _INT64.min if hull.low is None else max(hull.low // _MS_NS, _INT64.min)
    last = _INT64.max if hull.high is None else min(hull.high // _MS_NS, _INT64.max)
    return int(first), int(last)


def _in_time(frame: pa.Table, time_ms: tuple[int, int]) -> Mask:
    first, last = time_ms
    if first == _INT64.min and last == _INT64.max:
        return np.ones(frame.num_rows, dtype=bool)
    return np.asarray(
        (frame["min_time"].to_numpy() <= last) & (frame["max_time"].to_numpy() > first)
    )


def _in_stream(frame: pa.Table, predicate: Predicate, labels: tuple[str, ...]) -> Mask:
    if not set(labels) & set(predicate.columns):
        return np.ones(frame.num_rows, dtype=bool)
    encoded = frame["stream"].combine_chunks().dictionary_encode()
    verdicts = [
        _may_stream(predicate, labels_of(stream), labels)
        for stream in encoded.dictionary.to_pylist()
    ]
    return np.asarray(verdicts, dtype=bool)[encoded.indices.to_numpy()]


def _may_stream(predicate: Predicate, stream: Mapping[str, str], labels: tuple[str, ...]) -> bool:
    names = frozenset(labels)

    def bounds_of(column: Column) -> Bounds:
        return (
            Bounds.constant(stream.get(column.name), 1) if column.name in names else Bounds(rows=1)
        )

    return predicate.may(bounds_of)
