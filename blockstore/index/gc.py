"""Collection of the index: the boundary moves up, then what is below it goes (protocol 3.4).

Invariants:
- Before entry i is deleted, the durable boundary is >= i. The latest entry is never deleted: the
  boundary moves to C only where entry C+1 exists.
- A version's age counts from its successor: C is wanted once entry C+1 is older than
  ``history_retention`` by the store's clock, looking only above the boundary, for a left-behind
  file below it has a fresh time.
- The boundary moves to C only over a checkpoint at C that equals this process's own fold; one that
  does not is Corrupt, and nothing is deleted. One that ends with another entry was left by a writer
  of a history that was replaced: no reader believes it while entry C is there, so the boundary
  stops below it, and a later pass deletes it.
- After the advance the latest state is read **again**, and only then anything goes: entries at or
  below the boundary, in every pass, whichever process left them; then checkpoints below the
  boundary that no tag of that state pins. The one at the boundary stays. Before each batch of them
  the second read is at most half a ``delete_delay`` old.
- Just before each batch goes, the latest entry and then the boundary are looked at once more: a
  copy of the table may have been put back, or the table made again, since the second read, and what
  is below the boundary of one is the history of the other. What is left is a process that stops
  between that look and the DELETE.
- A root is advanced over only if every leaf of it is there and proven by its hash. Leaves that no
  root names go afterwards (``tree/collect.py``).
- A pass that was cut short anywhere is finished by the next, whichever process runs it; any number
  may run at once.
- Where stale writes are not refused (no If-Match) the boundary stays, and that is said with the
  bytes that stay.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from blockstore.bucket.api import Bucket, ObjectInfo, writable
from blockstore.errors import Corrupt, NewerFormat
from blockstore.format.features import TREE
from blockstore.freshness import Freshness
from blockstore.index.checkpoint import encode_checkpoint, holds_state
from blockstore.index.checkpoint_name import how_to_replace_checkpoint, name_of
from blockstore.index.checkpoint_write import ensure_checkpoint, raise_hint
from blockstore.index.epochs import Held, check_held
from blockstore.index.log import Log
from blockstore.index.read import IndexReader
from blockstore.index.state import State
from blockstore.names import (
    BOUNDARY,
    CHECKPOINTS,
    INDEX,
    checkpoint_key,
    entry_key,
    parse_checkpoint,
    parse_entry,
)
from blockstore.world import World

_logger = logging.getLogger(__name__)

_PAGE = 256
_BATCH = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What one pass did."""

    before: int
    """The boundary that it found."""
    boundary: int
    """The boundary that it left."""
    checkpoint: int | None = None
    """The version whose checkpoint it wrote, if it was missing."""
    entries: int = 0
    """Entries deleted."""
    checkpoints: int = 0
    """Checkpoints deleted."""
    leaves: int = 0
    """Leaves deleted."""
    off: str | None = None
    """Why the boundary cannot advance on this store; None where it can."""
    kept_bytes: int = 0
    """Bytes of entries that stay for that reason alone."""
    due_s: float | None = field(default=None, compare=False)
    """In how many seconds the boundary can advance further, if nothing changes; None if it cannot
    then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The index as one pass looks at it before it decides."""

    boundary: int
    wanted: int
    entries: dict[int, ObjectInfo]
    checkpoints: tuple[int, ...]
    now_ms: int
    """The store's clock, read before the listings."""


def wanted_boundary(
    boundary: int, entries: Iterable[tuple[int, int]], *, now_ms: int, retention_ms: int
) -> int:
    """The highest C above ``boundary`` such that entry C+1 is older than the retention; else
    ``boundary``.

    ``entries`` are pairs of id and LastModified, in any order.
    """
    old = (entry - 1 for entry, modified_ms in entries if now_ms - modified_ms > retention_ms)
    return max((wanted for wanted in old if wanted > boundary), default=boundary)


def doomed_entries(entries: Iterable[int], boundary: int) -> list[int]:
    """The entries at or below the boundary."""
    return sorted(entry for entry in entries if entry <= boundary)


def doomed_checkpoints(
    checkpoints: Iterable[int], boundary: int, pinned: Collection[int]
) -> list[int]:
    """The checkpoints below the boundary that no tag pins."""
    return sorted(
        version for version in checkpoints if version < boundary and version not in pinned
    )


def collect(log: Log, world: World, *, held: Held | None = None) -> Collected:
    """One pass. Raises Fenced if the state names another holder than ``held``; Corrupt or
    BoundaryLost where the index contradicts itself, and then deletes nothing; Unavailable if it
    could not end, and the next pass continues."""
    bucket = writable(log.bucket)
    state = log.poll()
    check_held(state, held)
    seen = _look(log, bucket, world, state)
    boundary, written, off = seen.boundary, None, None
    if seen.wanted > boundary:
        off = log.boundary.why_fixed()
        if off is None:
            boundary, written = _advance_over(log, bucket, seen, targets_of(seen, state))
    fresh = Freshness(world.clock)
    state = _latest(log)
    check_held(state, held)
    if state.version <= boundary:
        raise Corrupt(
            f"{BOUNDARY} of {bucket.url} is {boundary} and the latest entry is {state.version}, "
            "expected an entry above the boundary: nothing was deleted; stop all writers, and "
            "restore the index from a copy"
        )
    entries = doomed_entries(seen.entries, boundary)
    _delete(log, bucket, world, [entry_key(entry) for entry in entries])
    checkpoints = doomed_checkpoints(seen.checkpoints, boundary, set(state.tags.values()))
    fresh.lasts_s = state.definition.properties.delete_delay_s / 2
    deleted = _delete_checkpoints(log, bucket, checkpoints, fresh)
    leaves = 0
    if TREE in state.requires:
        from blockstore.index.tree.collect import collect_leaves

        leaves = collect_leaves(log, world, state, lambda: _look_again(log))
    return Collected(
        before=seen.boundary,
        boundary=boundary,
        checkpoint=written,
        entries=len(entries),
        checkpoints=deleted,
        leaves=leaves,
        off=off,
        kept_bytes=0 if off is None else _say_off(log, seen, off),
        due_s=None if off is not None else _due_s(seen, boundary, state),
    )


def _due_s(seen: _Seen, boundary: int, state: State) -> float | None:
    """In how many seconds the first entry is old enough whose predecessor is above the boundary."""
    ages = [info.modified_ms for entry, info in seen.entries.items() if entry > boundary + 1]
    if not ages:
        return None
    retention_ms = state.definition.properties.history_retention_s * 1000
    return max(1.0, (min(ages) + retention_ms - seen.now_ms) / 1000)


def _look(log: Log, bucket: Bucket, world: World, state: State) -> _Seen:
    """The boundary and both listings.

    The clock is read before them, so that no age is overstated.
    """
    boundary = log.boundary.read()
    now_ms = bucket.now_ms()
    listed, below = world.pool.map(
        lambda prefix: [*bucket.list(prefix, recursive=False)], (INDEX, CHECKPOINTS)
    )
    entries = {entry: info for info in listed if (entry := parse_entry(info.key)) is not None}
    versions = (parse_checkpoint(info.key) for info in below)
    return _Seen(
        boundary=boundary,
        wanted=wanted_boundary(
            boundary,
            ((entry, info.modified_ms) for entry, info in entries.items()),
            now_ms=now_ms,
            retention_ms=int(state.definition.properties.history_retention_s * 1000),
        ),
        entries=entries,
        checkpoints=tuple(version for version in versions if version is not None),
        now_ms=now_ms,
    )


def targets_of(seen: _Seen, state: State) -> list[int]:
    """Where the boundary may move, best first. Pure.

    A root that is there goes first, then what is above it in the next pass: so the leaves of the
    root at the boundary have the names by which later roots share them.
    """
    if TREE not in state.requires:
        return [seen.wanted]
    there = frozenset(seen.checkpoints)
    roots = sorted((one for one in there if seen.boundary < one <= seen.wanted), reverse=True)
    own = (one for one in range(seen.wanted, seen.boundary, -1) if one not in there)
    return [*roots, *islice(own, 1)]


def _advance_over(
    log: Log, bucket: Bucket, seen: _Seen, targets: Iterable[int]
) -> tuple[int, int | None]:
    """Move the boundary to the first of these versions where that is possible."""
    for target in targets:
        moved = _advance(log, bucket, replace(seen, wanted=target))
        if moved is not None:
            return moved
    return seen.boundary, None


def _advance(log: Log, bucket: Bucket, seen: _Seen) -> tuple[int, int | None] | None:
    """Move the boundary to the one that is wanted, over a checkpoint that equals the fold.

    Returns the boundary, and the version whose checkpoint was written; None where the root there
    is not whole. Another collector may overtake at any step: then the boundary is where that one
    left it.
    """
    if seen.wanted <= seen.boundary:
        return seen.boundary, None
    # A table that was put back may have the very boundary that was read: its entries are not these.
    log.confirm()
    state = _own_fold(log.reader, seen)
    if state is None:
        return log.boundary.read(), None
    if state.root is not None and not _is_whole(log, bucket, state):
        return log.boundary.read(), None
    written = ensure_checkpoint(bucket, state) is not None
    # Once more: that may have taken long. And before the checkpoint is read: a copy that was put
    # back may lack just that.
    log.confirm()
    found = log.reader.checkpoint_data(seen.wanted)
    if found is None:
        _check_overtaken(log, checkpoint_key(seen.wanted), seen.wanted)
        return log.boundary.read(), None
    if TREE in state.requires or found != encode_checkpoint(state):
        stored = log.reader.checkpoint(found, seen.wanted)
        if stored.last != state.last:
            _logger.warning(
                "%s of %s is of another history than the entries: the boundary stops below it; %s",
                checkpoint_key(seen.wanted),
                bucket.url,
                how_to_replace_checkpoint(bucket.url),
            )
            return _advance(log, bucket, replace(seen, wanted=seen.wanted - 1))
        if not holds_state(stored, state):
            raise Corrupt(
                f"{checkpoint_key(seen.wanted)} of {bucket.url} is not the fold of the entries up "
                f"to {seen.wanted}: nothing was deleted; compare it with a copy, and delete it if "
                "the entries are right"
            )
        if stored.root is not None and not _is_whole(log, bucket, stored):
            return None
    boundary = log.boundary.advance(seen.wanted)
    # Where few entries come, it may be the newest checkpoint: named, it opens without a proof of
    # its content.
    raise_hint(bucket, name_of(seen.wanted, found))
    return boundary, seen.wanted if written else None


def _is_whole(log: Log, bucket: Bucket, stored: State) -> bool:
    """Whether the root that a state rests on has all of its leaves, proven by their hashes, and no
    collector removes one of them."""
    from blockstore.index.tree.collect import why_broken

    why = why_broken(bucket, stored, log.reader.leaves)
    if why is not None:
        _logger.warning(
            "%s of %s is not whole (%s): the boundary does not move over it; %s",
            checkpoint_key(stored.root or stored.version),
            bucket.url,
            why,
            how_to_replace_checkpoint(bucket.url),
        )
    return why is None


def _own_fold(reader: IndexReader, seen: _Seen) -> State | None:
    """The state at the wanted version, folded from the boundary's checkpoint, or, if that is
    damaged, from the first intact one above it; None if the boundary moved on meanwhile."""
    boundary, version = seen.boundary, seen.wanted
    state = _oldest(reader, boundary, [one for one in seen.checkpoints if boundary < one < version])
    entry = boundary if state is None else state.version
    while state is not None and entry < version:
        page = range(entry + 1, min(entry + _PAGE, version) + 1)
        found = reader.get_all(page)
        if reader.boundary.read() > boundary:
            return None
        for entry, data in zip(page, found, strict=True):
            if data is None:
                raise Corrupt(
                    f"index entry {entry} ({entry_key(entry)}) of {reader.bucket.url} is missing "
                    f"above the boundary {boundary}: nothing was deleted; restore it from a copy"
                )
            state = reader.follow(state, data)
    if state is None and reader.boundary.read() == boundary:
        raise Corrupt(
            f"{checkpoint_key(boundary)} of {reader.bucket.url} is missing although the boundary "
            f"is {boundary}: nothing was deleted; restore it from a copy"
        )
    return state


def _oldest(reader: IndexReader, boundary: int, above: Iterable[int]) -> State | None:
    """The state of the boundary's checkpoint, or of the first intact one of those above it; None if
    an object is missing or the boundary moved."""
    damaged: Corrupt | None = None
    for base in (boundary, *sorted(above)):
        try:
            found = reader.replay([base], base)
        except NewerFormat:
            raise
        except Corrupt as error:
            damaged = damaged or error
            continue
        if found is None:
            return None
        why = _broken_leaf(reader, found.state)
        if why is None:
            return found.state
        damaged = damaged or Corrupt(f"{checkpoint_key(base)} of {reader.bucket.url}: {why}")
    assert damaged is not None, "each of them was damaged"
    raise damaged


def _broken_leaf(reader: IndexReader, state: State) -> str | None:
    if state.root is None:
        return None
    from blockstore.index.tree.collect import broken_leaf

    return broken_leaf(reader.bucket, state, reader.leaves)


def _check_overtaken(log: Log, key: str, version: int) -> None:
    if log.boundary.read() <= version:
        raise Corrupt(
            f"{key} of {log.bucket.url} was written and is missing, and the boundary has not "
            "passed it: nothing was deleted; find the process that deletes there"
        )


def _latest(log: Log) -> State:
    """The second read: after the advance, so that a tag that was set in time is seen."""
    return log.poll()


def _delete(log: Log, bucket: Bucket, world: World, keys: Sequence[str]) -> None:
    def carry_out(batch: Sequence[str]) -> None:
        _look_again(log)
        bucket.delete(batch)

    batches = [keys[start : start + _BATCH] for start in range(0, len(keys), _BATCH)]
    world.pool.map(carry_out, batches)


def _look_again(log: Log) -> None:
    """Raise HistoryReplaced or BoundaryLost where what was decided is of another history; the
    boundary last, for a copy may end with the same entry and be older."""
    log.confirm()
    log.boundary.read()


def _delete_checkpoints(log: Log, bucket: Bucket, versions: Sequence[int], fresh: Freshness) -> int:
    """Delete them batch by batch, none once what the tags pin was read too long ago; the next pass
    decides again."""
    deleted = 0
    for start in range(0, len(versions), _BATCH):
        batch = versions[start : start + _BATCH]
        _look_again(log)
        if fresh.is_over:
            break
        bucket.delete([checkpoint_key(version) for version in batch])
        deleted += len(batch)
    return deleted


def _say_off(log: Log, seen: _Seen, off: str) -> int:
    """Say loudly what stays, and how much."""
    stay = doomed_entries(seen.entries, seen.wanted)
    size = sum(seen.entries[entry].size for entry in stay)
    _logger.warning(
        "the index of %s is not collected: %s; %s entries of %s bytes stay",
        log.bucket.url,
        off,
        len(stay),
        size,
    )
    return size
