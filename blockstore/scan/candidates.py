"""The blocks of a snapshot that can hold rows of a scan: by time range, labels and statistics, over
columns.

Rules:
- A block's rows are in [min_time, max_time), milliseconds of the time column rounded down. The test
  is exact: a block is left out only if no time in its range can meet the condition.
- A stream's labels are constants, so the condition is decided for each stream once.
- Only blocks that stay are made into objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.format.block import BlockKind, BlockMeta
from blockstore.format.names_now import time_column_of
from blockstore.index.derived import Arrays
from blockstore.index.rows import LiveBlock
from blockstore.predicate import Predicate
from blockstore.predicate.nodes import Column
from blockstore.predicate.prune import Bounds
from blockstore.scan.sieve import sieve
from blockstore.scan.snapshot import Snapshot, labels_of

Mask = npt.NDArray[np.bool_]

_MS_NS = 1_000_000
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A block that stays, with what the snapshot says of its rows."""

    meta: BlockMeta
    sources: frozenset[str] | None = None
    excepted: frozenset[str] | None = None
    version: int | None = None
    first_row_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The blocks that stay, in the order of their ULIDs, and how many were left out, by reason."""

    blocks: tuple[Candidate, ...]
    total: int
    by_time: int
    by_labels: int
    excepted: int
    """Blocks all of whose sources the snapshot hides."""
    chunks_by_statistics: int
    """Chunks of the blocks that were left out by their statistics."""


def candidates(snapshot: Snapshot, predicate: Predicate, labels: tuple[str, ...]) -> Candidates:
    """Return the blocks that can hold rows for which ``predicate`` is true.

    ``labels`` are the label columns.
    """
    time_ms = _time_hull_ms(snapshot, predicate)
    frame = snapshot.blocks.table()
    in_time = _in_time(frame, time_ms)
    in_stream = _in_stream(frame, predicate, labels)
    sieved = sieve(snapshot, predicate, in_time & in_stream)
    live = [
        Candidate(
            meta=block.meta,
            excepted=block.excepted.intersection(block.meta.sources) or None,
            version=block.version,
            first_row_id=block.first_row_id,
        )
        for block in snapshot.blocks.take(np.flatnonzero(sieved.may).tolist())
    ]
    blocks = [
        block
        for block in live
        if block.excepted is None or len(block.excepted) < len(block.meta.sources)
    ]
    listed = list(_listed(snapshot, predicate, labels, time_ms))
    return Candidates(
        blocks=tuple(sorted((*blocks, *listed), key=lambda block: block.meta.ulid)),
        total=len(snapshot),
        by_time=int(np.count_nonzero(~in_time)) + len(snapshot.listed) - len(listed),
        by_labels=int(np.count_nonzero(in_time & ~in_stream)),
        excepted=len(live) - len(blocks),
        chunks_by_statistics=sieved.chunks,
    )


def changes_of(snapshot: Snapshot) -> tuple[Candidate, ...]:
    """Return all blocks of changes, which hide rows of others whatever a condition is."""
    if snapshot.definition.identity is None:
        return ()
    every = np.ones(len(snapshot.blocks), dtype=bool)
    (changes,) = snapshot.blocks.derived("changes", snapshot.definition, _are_changes, every)
    return tuple(
        Candidate(meta=block.meta, version=block.version, first_row_id=block.first_row_id)
        for block in snapshot.blocks.take(np.flatnonzero(changes).tolist())
    )


def _are_changes(blocks: Sequence[LiveBlock]) -> Arrays:
    return (np.array([block.meta.kind is BlockKind.CHANGES for block in blocks], dtype=bool),)


def _listed(
    snapshot: Snapshot, predicate: Predicate, labels: tuple[str, ...], time_ms: tuple[int, int]
) -> Iterator[Candidate]:
    first, last = time_ms
    definition = snapshot.definition
    for block in snapshot.listed:
        meta = block.meta
        # A block of another writer may have the times of another column, or of its creation, which
        # do not bound ours.
        other = time_column_of(meta, definition) != definition.time_column
        in_time = other or (meta.min_time <= last and meta.max_time > first)
        if in_time and _may_stream(predicate, meta.labels, labels):
            yield Candidate(meta=meta, sources=block.only_sources)


def _time_hull_ms(snapshot: Snapshot, predicate: Predicate) -> tuple[int, int]:
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
