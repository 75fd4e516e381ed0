"""The ranges of a column over many parts (blocks, pages) as arrays, compared with the range of a
condition at once.

Rules:
- What is not known, or cannot be held exactly, is open: such a part may match.
- NaN is above all numbers: a part that may hold one has no upper bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from blockstore.index.derived import Mask
from blockstore.predicate.literals import Kind
from blockstore.predicate.nodes import Key
from blockstore.predicate.prune import Bounds, Hull

Range = tuple[Key | None, Key | None]
"""The least and the greatest value; None = unknown."""

LEAST, GREATEST = -(2**63), 2**63 - 1
"""The integers that are held."""
_INTEGERS: tuple[type, object] = (np.int64, 0)
_HELD: dict[Kind, tuple[type, object]] = {
    Kind.INTEGER: _INTEGERS,
    Kind.DATE: _INTEGERS,
    Kind.TIMESTAMP: _INTEGERS,
    Kind.TIME: _INTEGERS,
    Kind.FLOAT: (np.float64, 0.0),
    Kind.STRING: (np.object_, ""),
}
"""How the keys of a column are held, and the placeholders of unknown bounds."""


def can_hold(kind: Kind) -> bool:
    """Whether ranges of such a column can be held; others are judged part by part."""
    return kind in _HELD


def holder(kind: Kind) -> tuple[type, Any]:
    """How the keys of such a column are held, and the placeholder of an unknown bound."""
    return _HELD[kind]


def range_over(parts: Sequence[Bounds], kind: Kind) -> Range:
    """The range of a column over all of the parts."""
    is_float = kind is Kind.FLOAT
    return (
        _outermost([one.low for one in parts], min),
        _outermost([None if is_float and one.nans != 0 else one.high for one in parts], max),
    )


class Ranges(NamedTuple):
    """The ranges of one column, a place a part."""

    low: npt.NDArray[Any]
    high: npt.NDArray[Any]
    open_low: Mask
    """Where ``low`` is unknown."""
    open_high: Mask

    @classmethod
    def of(cls, ranges: Sequence[Range], kind: Kind) -> Ranges:
        """These ranges of a column of a kind that can be held."""
        type_, unknown = _HELD[kind]
        lows = [_exactly(low, kind) for low, _ in ranges]
        highs = [_exactly(high, kind) for _, high in ranges]
        return cls(
            np.array([unknown if low is None else low for low in lows], dtype=type_),
            np.array([unknown if high is None else high for high in highs], dtype=type_),
            np.array([low is None for low in lows], dtype=bool),
            np.array([high is None for high in highs], dtype=bool),
        )

    def meet(self, hull: Hull) -> Mask:
        """Whether each of them meets the range of a condition."""
        may = np.ones(len(self.low), dtype=bool)
        if hull.low is not None:
            may &= (self.high >= self._held(hull.low)) | self.open_high
        if hull.high is not None:
            may &= (self.low <= self._held(hull.high)) | self.open_low
        return may

    def _held(self, key: Key) -> npt.NDArray[Any]:
        """A key as the ranges are held: numpy itself would cut the NULs off the end of a text. One
        beyond the integers that are held counts as the last of them."""
        held = max(LEAST, min(GREATEST, key)) if isinstance(key, int) else key
        return np.array(held, dtype=self.low.dtype)


def _outermost(keys: Sequence[Key | None], choose: Callable[[list[Any]], Key]) -> Key | None:
    """The least or the greatest of the keys; None if one of them is unknown."""
    known = [key for key in keys if key is not None]
    return choose(known) if known and len(known) == len(keys) else None


def _exactly(key: Key | None, kind: Kind) -> Key | None:
    """The key, if it can be held as it is."""
    if not isinstance(key, int):
        return key
    held = int(float(key)) == key if kind is Kind.FLOAT else LEAST <= key <= GREATEST
    return key if held else None
