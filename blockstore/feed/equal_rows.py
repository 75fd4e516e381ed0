"""Rows without an identity, counted: which of two heaps of rows have no equal in the other. Pure.

Two rows are equal if all their columns are. They are compared by 128 bits of each, of at most some
million rows at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.scan.identities import row_texts

AT_ONCE = 4_000_000

Read = Callable[[], Iterable[pa.RecordBatch]]
"""Reads the rows of a heap, each time in the same order."""

Mask = npt.NDArray[np.bool_]
_Digests = npt.NDArray[np.uint64]


def unequal(gone: Read, came: Read, rows: int) -> tuple[Mask, Mask]:
    """Return which rows of either heap are left once each is set against one equal row of the
    other. ``rows`` is about how many there are in both."""
    passes = max(1, -(-rows // AT_ONCE))
    left: tuple[list[Mask], list[Mask]] = ([], [])
    for number in range(passes):
        (gone_at, gone_digests), (came_at, came_digests) = (
            _digests(read, number, passes) for read in (gone, came)
        )
        found = cancel(gone_digests, came_digests)
        for masks, at, mask in zip(left, (gone_at, came_at), found, strict=True):
            own = np.zeros(len(at), dtype=bool)
            own[at] = mask
            masks.append(own)
    first, second = (np.logical_or.reduce(masks) for masks in left)
    return first, second


def cancel(gone: _Digests, came: _Digests) -> tuple[Mask, Mask]:
    """Return which of the digests, two numbers each, have no equal one on the other side."""
    every = np.concatenate([gone, came])
    side = np.concatenate([np.zeros(len(gone), np.int64), np.ones(len(came), np.int64)])
    order = np.lexsort((side, every[:, 1], every[:, 0]))
    ordered, sides = every[order], side[order]
    if not len(ordered):
        return np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
    begins = np.r_[True, np.any(ordered[1:] != ordered[:-1], axis=1)]
    group = np.cumsum(begins) - 1
    counts = np.bincount(2 * group + sides, minlength=2 * (int(group[-1]) + 1)).reshape(-1, 2)
    first = np.flatnonzero(begins)[group] + np.where(sides == 1, counts[group, 0], 0)
    rank = np.arange(len(ordered)) - first
    left = np.zeros(len(ordered), dtype=bool)
    left[order] = rank >= counts.min(axis=1)[group]
    return left[: len(gone)], left[len(gone) :]


def _digests(read: Read, number: int, passes: int) -> tuple[Mask, _Digests]:
    """Which rows of a heap are those of one pass, and their digests."""
    own, found = [np.zeros(0, dtype=bool)], [np.zeros((0, 2), dtype=np.uint64)]
    for batch in read():
        texts = row_texts(batch.columns).cast(pa.binary()).to_pylist()
        data = b"".join(hashlib.blake2b(text, digest_size=16).digest() for text in texts)
        digests = np.frombuffer(data, dtype="<u8").reshape(-1, 2)
        mask = digests[:, 0] % np.uint64(passes) == number
        own.append(mask)
        found.append(digests[mask])
    return np.concatenate(own), np.concatenate(found)
