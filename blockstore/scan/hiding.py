"""Which rows of the chunks of a query are hidden, with as little reading as that takes.

Rules:
- The newest version of a row counts (``current.py``). A chunk of changes can hide rows of another
  chunk only if it has a newer version, and if the ranges of their identities meet. A block has an
  identity once, so none hides rows of itself.
- Only chunks that the query reads are looked at, and of those only the ones that something may hide
  rows of. A chunk of changes that nothing else hides rows of hides its own tombstones.
- What is found depends on a chunk and on the chunks that may hide rows of it. It is kept by both
  (``hidden_cache.py``): a new block of changes costs nothing where it can hide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from blockstore.format.block import BlockKind, StreamKey
from blockstore.format.identity import DELETED, ROW_ID, VERSION, Identity
from blockstore.scan.chunk import Positions, ScanChunk
from blockstore.scan.current import (
    Newest,
    ReadColumns,
    columns_of,
    hidden_in,
    newest_among,
    numbers,
)
from blockstore.scan.hidden_cache import HiddenCache
from blockstore.scan.identities import identities

_NONE: Positions = np.zeros(0, dtype=np.int64)

Bound = int | str | None


@dataclass(frozen=True, slots=True)
class _Target:
    """A chunk of which some rows may be hidden."""

    chunk: ScanChunk
    hiders: tuple[ScanChunk, ...]
    """The chunks of changes that may hide some of them."""


def hidden_rows(
    chunks: Sequence[ScanChunk],
    changes: Sequence[ScanChunk],
    identity: Identity,
    read: ReadColumns,
    cache: HiddenCache | None = None,
) -> dict[str, Positions]:
    """Return the positions that are hidden, by the key of the chunk; chunks without any are left
    out.

    Args:
        chunks: The chunks that are to be read.
        changes: All chunks of changes of the snapshot.
        identity: What makes two rows versions of one.
        read: Reads columns of chunks.
        cache: What was found before; None to keep nothing.
    """
    cache = HiddenCache() if cache is None else cache
    streams: dict[StreamKey, list[ScanChunk]] = {}
    for chunk in changes:
        streams.setdefault(chunk.stream, []).append(chunk)
    names = {stream: cache.name_of(identity, own) for stream, own in streams.items()}
    found: dict[str, Positions] = {}
    missing: dict[StreamKey, list[_Target]] = {}
    for chunk in chunks:
        name = names.get(chunk.stream)
        if name is None:
            continue
        positions = cache.positions(name, chunk)
        if positions is None:
            target = _target(chunk, streams[chunk.stream], identity)
            positions = _known(target, identity, cache)
            if positions is None:
                missing.setdefault(chunk.stream, []).append(target)
                continue
            cache.keep_positions(name, chunk, positions)
        found[chunk.key] = positions
    for stream, targets in missing.items():
        for target, positions in _found(targets, streams[stream], identity, read, cache):
            found[target.chunk.key] = positions
            cache.keep_positions(names[stream], target.chunk, positions)
            cache.keep_positions(cache.name_of(identity, target.hiders), target.chunk, positions)
    return {key: positions for key, positions in found.items() if len(positions)}


def may_hide(hider: ScanChunk, chunk: ScanChunk, identity: Identity) -> bool:
    """Return whether a chunk of changes may hide rows of another chunk of its stream."""
    if hider.block == chunk.block:
        return False
    newest, oldest = hider.versions[1], chunk.versions[0]
    if newest is not None and oldest is not None and newest <= oldest:
        return False
    low, high = identity_bounds(chunk, identity)
    other_low, other_high = identity_bounds(hider, identity)
    return not (_is_below(high, other_low) or _is_below(other_high, low))


def _target(chunk: ScanChunk, changes: Iterable[ScanChunk], identity: Identity) -> _Target:
    return _Target(chunk, tuple(one for one in changes if may_hide(one, chunk, identity)))


def _known(target: _Target, identity: Identity, cache: HiddenCache) -> Positions | None:
    """What follows without a read."""
    if not target.hiders and target.chunk.kind is BlockKind.PLAIN:
        return _NONE
    return cache.positions(cache.name_of(identity, target.hiders), target.chunk)


def _found(
    targets: Sequence[_Target],
    changes: Sequence[ScanChunk],
    identity: Identity,
    read: ReadColumns,
    cache: HiddenCache,
) -> Iterator[tuple[_Target, Positions]]:
    """The hidden rows of chunks of one stream."""
    alone = [one for one in targets if not one.hiders]
    for target, rows in zip(alone, read([one.chunk for one in alone], (DELETED,)), strict=True):
        yield target, np.flatnonzero(_flags(rows[DELETED]))
    shadowed = [target for target in targets if target.hiders]
    if not shadowed:
        return
    hiding = {one.key for target in shadowed for one in target.hiders}
    hiders = [one for one in changes if one.key in hiding]
    newest = _newest_of(hiders, identity, read, cache)
    plain = [one for one in shadowed if one.chunk.kind is BlockKind.PLAIN]
    of_stream = {hiders[0].stream: newest}
    hidden = hidden_in([one.chunk for one in plain], of_stream, identity, read)
    for target in plain:
        yield target, hidden[target.chunk.key].positions
    changed = [one for one in shadowed if one.chunk.kind is not BlockKind.PLAIN]
    names = (*identity.columns, VERSION, DELETED)
    tombstones: list[np.ndarray[tuple[int], np.dtype[np.bool_]]] = []

    def rows_of() -> Iterator[tuple[pa.Array, Positions]]:
        for rows in read([one.chunk for one in changed], names):
            tombstones.append(_flags(rows[DELETED]))
            yield identities(columns_of(rows, identity)), numbers([rows[VERSION]])

    for place, older in enumerate(newest.hidden_each(rows_of())):
        is_hidden = tombstones[place]
        is_hidden[older.positions] = True
        yield changed[place], np.flatnonzero(is_hidden)


def _newest_of(
    changes: Sequence[ScanChunk], identity: Identity, read: ReadColumns, cache: HiddenCache
) -> Newest:
    """The newest versions that chunks of changes hold."""
    name = cache.name_of(identity, changes)
    newest = cache.newest(name)
    if newest is None:
        rows = list(read(changes, (*identity.columns, VERSION, DELETED)))
        values = pa.concat_arrays([identities(columns_of(one, identity)) for one in rows])
        versions = numbers(one[VERSION] for one in rows)
        deleted = np.concatenate([_flags(one[DELETED]) for one in rows])
        newest, *_ = newest_among(values, versions, deleted)
        cache.keep_newest(name, newest)
    return newest


def identity_bounds(chunk: ScanChunk, identity: Identity) -> tuple[Bound, Bound]:
    """Return the lowest and the highest identity of a chunk, where they are known and have an
    order."""
    if len(identity.columns) > 1:
        return None, None
    stats = chunk.identity_stats
    low, high = (None, None) if stats is None else (_bound(stats.min), _bound(stats.max))
    if ROW_ID not in identity.columns or chunk.first_row_id is None:
        return low, high
    # Of a write: rows without an id are new, and theirs follow from the index.
    first, last = chunk.first_row_id, chunk.first_row_id + chunk.file.rows - 1
    if chunk.kind is BlockKind.PLAIN:
        return first, last
    if stats is None or not (isinstance(low, int) and isinstance(high, int)):
        all_new = stats is not None and stats.nulls == chunk.file.rows
        return (first, last) if all_new else (None, None)
    return (min(low, first), max(high, last)) if stats.nulls else (low, high)


def _bound(value: object) -> Bound:
    return value if isinstance(value, (int, str)) else None


def _is_below(value: Bound, other: Bound) -> bool:
    """Whether one bound is certainly below another."""
    if isinstance(value, int) and isinstance(other, int):
        return value < other
    return isinstance(value, str) and isinstance(other, str) and value < other


def _flags(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return column.to_numpy(zero_copy_only=False).astype(bool)
