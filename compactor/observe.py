"""What the compactor sees of a table before it plans: one listing, then the index.

Rules:
- Only live blocks of the index are candidates: their rows are what readers see.
- A live block with a no-compact mark stays out of merges. So does one with a deletion mark, whatever its reason (a
  person wants its rows gone, and a merge would carry them on), and one that was found damaged.
- A block that another sort key or time column ordered than the table's of now is merged with its like only.
- The time of a plan is the store's, read with the listing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from blockstore.bucket.api import ReadBucket
from blockstore.format.definition import Definition
from blockstore.index.blocks import LiveBlock
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.lifecycle.discover import Listing, list_directories
from blockstore.names import DELETION_MARK, NO_COMPACT_MARK
from compactor.plan import Candidate

__all__ = ["Observation", "observe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A table at one version, as planning looks at it."""

    state: State
    now_ms: int
    live: Mapping[str, LiveBlock]
    candidates: tuple[Candidate, ...]


def observe(
    bucket: ReadBucket,
    log: Log,
    *,
    skip: Collection[tuple[str, str]] = (),
    left_out: Collection[str] = (),
) -> Observation:
    """Look at the table; streams with a label of ``skip`` are not seen, blocks of ``left_out`` are not merged."""
    listing = list_directories(bucket)
    state = log.poll()
    live = {block.ulid: block for block in state.blocks if not _skipped(block, skip)}
    candidates = tuple(
        _candidate(block, state.definition, _marks(listing, block.ulid))
        for block in live.values()
        if block.ulid not in left_out and DELETION_MARK not in _marks(listing, block.ulid)
    )
    return Observation(state=state, now_ms=listing.now_ms, live=live, candidates=candidates)


def _skipped(block: LiveBlock, skip: Collection[tuple[str, str]]) -> bool:
    return any(block.meta.labels.get(name) == value for name, value in skip)


def _marks(listing: Listing, ulid: str) -> Collection[str]:
    """What lies in the block's directory, marks among it."""
    directory = listing.directories.get(ulid)
    return () if directory is None else directory.objects.keys()


def _candidate(block: LiveBlock, definition: Definition, marks: Collection[str]) -> Candidate:
    meta = block.meta
    return Candidate(
        ulid=meta.ulid,
        stream=meta.stream,
        min_time=meta.min_time,
        max_time=meta.max_time,
        rows=meta.rows,
        bytes=meta.bytes,
        level=meta.level,
        timed=meta.time_column is not None and meta.time_column == definition.time_column,
        sort_by=meta.sort_by,
        no_compact=NO_COMPACT_MARK in marks,
    )
