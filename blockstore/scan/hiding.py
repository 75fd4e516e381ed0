"""Which rows of the chunks of a query are hidden, with as little reading as that takes.

Rules:
- The newest version of a row counts (``current.py``). Which chunks of changes may hide rows of
  another chunk is in ``hiders.py``.
- Only chunks that the query reads are looked at, and of those only the ones that something may hide
  rows of. A chunk of changes that nothing else hides rows of hides its own tombstones.
- What is found depends on a chunk and on the chunks that may hide rows of it. It is kept by both
  (``hidden_cache.py``): a new block of changes costs nothing where it can hide nothing.
- A query of some identities needs only what hides those. All is found if that is not much more, for
  the queries that follow.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from blockstore.format.block import BlockKind, StreamKey
from blockstore.format.identity import DELETED, Identity
from blockstore.scan.chunk import Positions, ScanChunk
from blockstore.scan.current import (
    Newest,
    ReadColumns,
    hidden_in,
    identified,
    newest_among,
)
from blockstore.scan.hidden_cache import HiddenCache, contents, is_of
from blockstore.scan.hiders import ALL, Hiders, Range

_NONE: Positions = np.zeros(0, dtype=np.int64)


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
    asked: Range = ALL,
) -> dict[str, Positions]:
    """Return the positions that are hidden, by the key of the chunk; chunks without any are left
    out. Of rows without the identities that are ``asked`` for, some may be missing.

    Args:
        chunks: The chunks that are to be read.
        changes: All chunks of changes of the snapshot.
        identity: What makes two rows versions of one.
        read: Reads columns of chunks.
        cache: What was found before; None to keep nothing.
        asked: The identities that the query asks for.
    """
    cache = HiddenCache() if cache is None else cache
    streams: dict[StreamKey, list[ScanChunk]] = {}
    for chunk in changes:
        streams.setdefault(chunk.stream, []).append(chunk)
    present = {stream: contents(own) for stream, own in streams.items()}
    names = {stream: cache.name_of(identity, own) for stream, own in streams.items()}
    hiders = {stream: Hiders(own, identity) for stream, own in streams.items()}
    found: dict[str, Positions] = {}
    missing: dict[StreamKey, list[_Target]] = {}
    for chunk in chunks:
        name = names.get(chunk.stream)
        if name is None:
            continue
        positions = cache.positions(name, chunk)
        # Asked first: of a table with many updates most chunks are hidden, until they are merged.
        if positions is None and cache.is_hidden(identity, chunk, present[chunk.stream]):
            positions = np.arange(chunk.file.rows)
            cache.keep_positions(name, chunk, positions)
        if positions is None:
            target = _Target(chunk, tuple(hiders[chunk.stream].of(chunk)))
            positions = _known(target, identity, cache, present[chunk.stream])
            if positions is None:
                missing.setdefault(chunk.stream, []).append(target)
                continue
            cache.keep_positions(name, chunk, positions)
        found[chunk.key] = positions
    for stream, complete in missing.items():
        targets = _for(asked, complete, hiders[stream])
        own = streams[stream]
        for target, positions in _found(targets, own, present[stream], identity, read, cache):
            found[target.chunk.key] = positions
            if target.hiders and len(positions) == target.chunk.file.rows:
                cache.keep_hidden(identity, target.chunk, target.hiders)
            cache.keep_positions(cache.name_of(identity, target.hiders), target.chunk, positions)
            if targets is complete:
                cache.keep_positions(names[stream], target.chunk, positions)
    return {key: positions for key, positions in found.items() if len(positions)}


def _for(asked: Range, targets: Sequence[_Target], hiders: Hiders) -> Sequence[_Target]:
    """The targets with what hides rows that are asked for, if that is at most half of what hides
    any. All of them or none: each may find what hides rows of another."""
    if asked == ALL:
        return targets
    some = [_Target(one.chunk, tuple(hiders.of(one.chunk, asked))) for one in targets]
    all_of, some_of = ({h.key for one in each for h in one.hiders} for each in (targets, some))
    return some if 2 * len(some_of) <= len(all_of) else targets


def _known(
    target: _Target, identity: Identity, cache: HiddenCache, present: Set[Hashable]
) -> Positions | None:
    """What follows without a read."""
    if not target.hiders and target.chunk.kind is BlockKind.PLAIN:
        return _NONE
    if cache.is_hidden(identity, target.chunk, present):
        return np.arange(target.chunk.file.rows)
    return cache.positions(cache.name_of(identity, target.hiders), target.chunk)


def _found(
    targets: Sequence[_Target],
    changes: Sequence[ScanChunk],
    present: Set[Hashable],
    identity: Identity,
    read: ReadColumns,
    cache: HiddenCache,
) -> Iterator[tuple[_Target, Positions]]:
    """The hidden rows of chunks of one stream."""
    alone: list[_Target] = []
    shadowed: list[_Target] = []
    for target in targets:
        # Asked once: another thread may add what it finds meanwhile.
        known = _known(target, identity, cache, present)
        if known is not None:
            yield target, known
        else:
            (shadowed if target.hiders else alone).append(target)
    if shadowed:
        yield from _found_shadowed(shadowed, changes, identity, read, cache)
    # After the others: what hides rows of those was read with its tombstones.
    for target, rows in zip(alone, read([one.chunk for one in alone], (DELETED,)), strict=True):
        yield target, np.flatnonzero(_flags(rows[DELETED]))


def _found_shadowed(
    shadowed: Sequence[_Target],
    changes: Sequence[ScanChunk],
    identity: Identity,
    read: ReadColumns,
    cache: HiddenCache,
) -> Iterator[tuple[_Target, Positions]]:
    """The hidden rows of chunks of one stream of which others may hide rows."""
    hiding = {one.key for target in shadowed for one in target.hiders}
    hiders = [one for one in changes if one.key in hiding]
    newest = _newest_of(hiders, identity, read, cache)
    plain = [one for one in shadowed if one.chunk.kind is BlockKind.PLAIN]
    of_stream = {hiders[0].stream: newest}
    hidden = hidden_in([one.chunk for one in plain], of_stream, identity, read)
    for target in plain:
        yield target, hidden[target.chunk.key].positions
    changed = [one for one in shadowed if one.chunk.kind is not BlockKind.PLAIN]
    tombstones: list[np.ndarray[tuple[int], np.dtype[np.bool_]]] = []

    def rows_of() -> Iterator[tuple[pa.Array, Positions]]:
        own = [one.chunk for one in changed]
        for values, versions, rows in identified(own, identity, read, (DELETED,)):
            tombstones.append(_flags(rows[DELETED]))
            yield values, versions

    for place, older in enumerate(newest.hidden_each(rows_of())):
        is_hidden = tombstones[place]
        is_hidden[older.positions] = True
        yield changed[place], np.flatnonzero(is_hidden)


def _newest_of(
    changes: Sequence[ScanChunk], identity: Identity, read: ReadColumns, cache: HiddenCache
) -> Newest:
    """The newest versions that chunks of changes hold."""
    newest = cache.newest(cache.name_of(identity, changes))
    if newest is None:
        before, some = cache.newest_of_some(identity, changes)
        others = [one for one in changes if not is_of(one, some)]
        values, versions, deleted = [], [], []
        for own, numbered, rows in identified(others, identity, read, (DELETED,)):
            values.append(own)
            versions.append(numbered)
            deleted.append(_flags(rows[DELETED]))
        if before is not None:
            values.append(before.values)
            versions.append(before.versions)
            deleted.append(before.deleted)
        newest, *_ = newest_among(
            pa.concat_arrays(values), np.concatenate(versions), np.concatenate(deleted)
        )
        cache.keep_newest(identity, changes, newest)
    return newest


def _flags(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return column.to_numpy(zero_copy_only=False).astype(bool)
