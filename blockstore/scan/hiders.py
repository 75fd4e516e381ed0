"""Which chunks of changes may hide rows of a chunk: found for many chunks at once.

Rules:
- A chunk of changes can hide rows of another chunk of its stream if it has a newer version, and if
  the ranges of their identities meet. What is not known of a range may meet any.
- A block has an identity once, so none hides rows of itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from blockstore.format.block import BlockKind
from blockstore.format.identity import ROW_ID, Identity
from blockstore.scan.chunk import ScanChunk

Bound = int | str | None
Range = tuple[Bound, Bound]
"""The lowest and the highest identity; None = not known."""
ALL: Range = (None, None)

_LAST = np.iinfo(np.int64).max


class Hiders:
    """The chunks of changes of one stream, by their ranges and versions."""

    def __init__(self, changes: Sequence[ScanChunk], identity: Identity) -> None:
        self._changes = changes
        self._identity = identity
        bounds = [identity_bounds(one, identity) for one in changes]
        known = {bound for pair in bounds for bound in pair if bound is not None}
        texts = {bound for bound in known if isinstance(bound, str)}
        # Of one key all bounds have one type; a number has no place among texts.
        self._kind: type[int] | type[str] = str if texts else int
        self._values: list[int] | list[str]
        self._values = sorted(texts) if texts else sorted(b for b in known if isinstance(b, int))
        places: dict[Bound, int] = dict(zip(self._values, range(len(self._values)), strict=True))
        self._lows = np.array([places.get(low, -1) for low, _ in bounds], np.int64)
        self._highs = np.array([places.get(high, _LAST) for _, high in bounds], np.int64)
        newest = [one.versions[1] for one in changes]
        self._newest = np.array([_LAST if one is None else one for one in newest], np.int64)

    def of(self, chunk: ScanChunk, asked: Range = ALL) -> list[ScanChunk]:
        """Return those that may hide rows of a chunk of the stream that have an identity of the
        range ``asked``, in their order."""
        meets = np.ones(len(self._changes), np.bool_)
        for low, high in (identity_bounds(chunk, self._identity), asked):
            if isinstance(low, self._kind):
                meets &= self._highs >= bisect_left(self._values, low)
            if isinstance(high, self._kind):
                meets &= self._lows < bisect_right(self._values, high)
        oldest = chunk.versions[0]
        if oldest is not None:
            meets &= self._newest > oldest
        found = [self._changes[place] for place in np.flatnonzero(meets).tolist()]
        return [one for one in found if one.block != chunk.block]


def identity_bounds(chunk: ScanChunk, identity: Identity) -> Range:
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


def is_compared(kind: pa.DataType) -> bool:
    """Whether conditions have the values that ``identity_bounds`` has for a column of this type."""
    return bool(pt.is_integer(kind) or pt.is_string(kind))


def _bound(value: object) -> Bound:
    return value if isinstance(value, (int, str)) else None
