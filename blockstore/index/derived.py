"""Arrays that others make of blocks, kept with the blocks: each place is made once, on first use.

A plan compares what it needs of all blocks at once; reading it out of every block's meta again,
each time, would cost more than the query. What a place holds depends on nothing but its block and
``of``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

B = TypeVar("B")

Mask = npt.NDArray[np.bool_]
Arrays = tuple[npt.NDArray[Any], ...]
Make = Callable[[Sequence[B]], Arrays]
"""Makes arrays of blocks, a place a block; of no blocks, empty ones of the same types."""

_PIECE = 8_192
"""Blocks that are objects at once: a million of them are 3 GB."""


class Derived(Generic[B]):
    """The arrays of ``size`` rows;

    ``pick`` returns the blocks of given rows. Safe to share between threads.
    """

    def __init__(self, size: int, pick: Callable[[Sequence[int]], Sequence[B]]) -> None:
        self._size = size
        self._pick = pick
        self._kept: dict[str, tuple[object, Mask, Arrays]] = {}
        """By name; a value is replaced, never changed."""

    def arrays(self, name: str, of: object, make: Make[B], rows: Mask) -> Arrays:
        """What ``make`` returns, for all rows; meaningful for ``rows``. Kept under ``name`` as long
        as ``of`` is the same object."""
        kept = self._kept.get(name)
        if kept is None or kept[0] is not of:
            nothing = tuple(np.zeros(self._size, array.dtype) for array in make([]))
            kept = of, np.zeros(self._size, dtype=bool), nothing
        _, known, arrays = kept
        missing = rows & ~known
        if missing.any():
            arrays = tuple(array.copy() for array in arrays)
            places = np.flatnonzero(missing)
            for start in range(0, len(places), _PIECE):
                piece = places[start : start + _PIECE]
                for array, made in zip(arrays, make(self._pick(piece.tolist())), strict=True):
                    array[piece] = made
            self._kept[name] = of, known | missing, arrays
        return arrays
