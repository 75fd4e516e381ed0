"""Arrays that others make of blocks, kept with the blocks: each place is made once, on first use.

A plan compares what it needs of all blocks at once; reading it out of every block's meta again,
each time, would cost more than the query. What a place holds depends on nothing but its block and
``of``.

Where blocks are stored as rows, the arrays are made of the rows, a few at a time: making each block
an object first takes thirty times as long (decision 53).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.index.arrow import numbers

B = TypeVar("B")
C = TypeVar("C", contravariant=True)

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]
"""Places of rows, sorted."""
Arrays = tuple[npt.NDArray[Any], ...]

_PIECE = 8_192
"""Blocks that are objects at once: a million of them are 3 GB."""

_JOINED = 512
"""Pieces of fewer rows are put together."""

_LEAST = 64
"""So few rows become objects: that is faster than to load Arrow's functions, and an odd one among
many makes no more of them."""


class Make(Protocol[C]):
    """Makes arrays, a place a block."""

    def of_blocks(self, blocks: Sequence[C]) -> Arrays:
        """The arrays of these blocks; of no blocks, empty ones of the same types."""
        ...

    def of_rows(self, rows: pa.Table) -> Arrays | None:
        """Those of blocks as ``rows.py`` stores them, equal to what ``of_blocks`` returns for them;
        None where only the blocks themselves tell."""
        ...


class Derived(Generic[B]):
    """The arrays of ``size`` rows. Safe to share between threads.

    Args:
        size: The number of rows.
        pick: Returns the blocks of given rows.
        pieces: Yields given rows as they are stored, some at a time, each with its places; None
            where no block is stored.
    """

    def __init__(
        self,
        size: int,
        pick: Callable[[Sequence[int]], Sequence[B]],
        pieces: Callable[[Places], Iterator[tuple[Places, pa.Table]]] | None = None,
    ) -> None:
        self._size = size
        self._pick = pick
        self._pieces = pieces
        self._kept: dict[str, tuple[object, Mask, Arrays]] = {}
        """By name; a value is replaced, never changed."""

    def arrays(self, name: str, of: object, make: Make[B], rows: Mask) -> Arrays:
        """What ``make`` returns, for all rows; meaningful for ``rows``. Kept under ``name`` as long
        as ``of`` is the same object."""
        kept = self._kept.get(name)
        if kept is None or kept[0] is not of:
            nothing = tuple(np.zeros(self._size, array.dtype) for array in make.of_blocks([]))
            kept = of, np.zeros(self._size, dtype=bool), nothing
        _, known, arrays = kept
        missing = rows & ~known
        if missing.any():
            arrays = tuple(array.copy() for array in arrays)
            for places, made in self._made(make, np.flatnonzero(missing)):
                for array, part in zip(arrays, made, strict=True):
                    array[places] = part
            self._kept[name] = of, known | missing, arrays
        return arrays

    def take_over(self, before: Derived[B], places: npt.NDArray[np.int64]) -> None:
        """Begin with what is kept of other rows: ``places`` says which of them each row is; below
        zero, none."""
        staying = np.flatnonzero(places >= 0)
        olds = places[staying]
        for name, (of, known, arrays) in list(before._kept.items()):
            mine = np.zeros(self._size, dtype=bool)
            mine[staying] = known[olds]
            taken = tuple(np.zeros(self._size, array.dtype) for array in arrays)
            for array, old in zip(taken, arrays, strict=True):
                array[staying] = old[olds]
            self._kept[name] = of, mine, taken

    def _made(self, make: Make[B], places: Places) -> Iterator[tuple[Places, Arrays]]:
        if self._pieces is None or len(places) <= _LEAST:
            for start in range(0, len(places), _PIECE):
                piece = places[start : start + _PIECE]
                yield piece, make.of_blocks(self._pick(piece.tolist()))
            return
        for piece, rows in _joined(self._pieces(places)):
            yield from self._made_of(make, piece, rows)

    def _made_of(
        self, make: Make[B], places: Places, rows: pa.Table
    ) -> Iterator[tuple[Places, Arrays]]:
        made, half = make.of_rows(rows), len(places) // 2
        if made is not None:
            yield places, made
        elif len(places) <= _LEAST:
            yield places, make.of_blocks(self._pick(places.tolist()))
        else:
            yield from self._made_of(make, places[:half], rows.slice(0, half))
            yield from self._made_of(make, places[half:], rows.slice(half))


def _joined(pieces: Iterator[tuple[Places, pa.Table]]) -> Iterator[tuple[Places, pa.Table]]:
    """The same rows in fewer pieces, in another order: to make something of few rows costs almost
    as much as of many."""
    waiting: list[tuple[Places, pa.Table]] = []
    for places, rows in pieces:
        if len(places) >= _JOINED:
            yield places, rows
            continue
        # Copied: a slice would keep all that it was cut from.
        waiting.append((places, rows.take(numbers(np.arange(len(rows))))))
        if sum(len(some) for some, _ in waiting) >= _JOINED:
            yield _one(waiting)
            waiting = []
    if waiting:
        yield _one(waiting)


def _one(pieces: Sequence[tuple[Places, pa.Table]]) -> tuple[Places, pa.Table]:
    places, tables = zip(*pieces, strict=True)
    return np.concatenate(places), pa.concat_tables(tables).combine_chunks()
