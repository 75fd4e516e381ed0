"""Positions of hidden rows in few bytes, for the way to tasks.

The differences of sorted positions are small numbers: the narrowest integers that hold them,
deflated.
"""

from __future__ import annotations

import zlib

import numpy as np

from blockstore.scan.chunk import Positions

_LEVEL = 1
_KINDS = ("<u1", "<u2", "<u4", "<u8")


def packed(positions: Positions) -> bytes:
    """Sorted positions as bytes."""
    steps = np.diff(positions, prepend=0)
    most = int(steps.max(initial=0))
    kind = next(kind for kind in _KINDS if most <= np.iinfo(kind).max)
    return kind.encode() + zlib.compress(steps.astype(kind).tobytes(), _LEVEL)


def unpacked(data: bytes) -> Positions:
    """The positions of ``packed``."""
    kind, steps = data[:3].decode(), zlib.decompress(data[3:])
    return np.cumsum(np.frombuffer(steps, dtype=kind).astype(np.int64), dtype=np.int64)
