"""The ranges of a column over many parts (blocks, pages) as arrays, compared with the range of a condition at once.

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

__all__ = ["Range", "Ranges", "can_hold", "range_over"]

Range = tuple[Key | None, Key | None]
"""The least and the greatest value; None = unknown."""

_INT64 = np.iinfo(np.int64)
_INTEGERS: tuple[type, object] = (np.int64, 0)
_HELD: dict[Kind, tuple[type, object]] = {
    Kind.INTEGER: _INTEGERS,
    Kind.DATE: _INTEGERS,
    Kind.TIMESTAMP: _INTEGERS,
    Kind.TIME: _INTEGERS,
    Kind.FLOAT: (np.float64, 0.0),
    Kind.STRING: (np.object_, ""),
}
"""How the keys of a column are held, and what stands where a bound is unknown."""


def can_hold(kind: Kind) -> bool:
    """Whether ranges of such a column can be held; others are judged part by part."""
    return kind in _HELD


def range_over(parts: Sequence[Bounds], kind: Kind) -> Range:
    """The range of a column of a kind that can be held over all of the parts."""
    is_float = kind is Kind.FLOAT
    return (
        _outermost([one.low for one in parts], min, is_float),
        _outermost([None if is_float and one.nans != 0 else one.high for one in parts], max, is_float),
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
        """Ranges that ``range_over`` answered."""
        lows, highs = [low for low, _ in ranges], [high for _, high in ranges]
        type_, unknown = _HELD[kind]
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
            may &= (self.high >= _held(hull.low)) | self.open_high
        if hull.high is not None:
            may &= (self.low <= _held(hull.high)) | self.open_low
        return may


def _held(key: Key) -> Key:
    """A key beyond the integers that are held counts as the last of them."""
    return max(int(_INT64.min), min(int(_INT64.max), key)) if isinstance(key, int) else key


def _outermost(keys: Sequence[Key | None], choose: Callable[[list[Any]], Key], is_float: bool) -> Key | None:
    """The least or the greatest of the keys; None if one of them is unknown or cannot be held exactly."""
    known = [key for key in keys if key is not None and _holds(key, is_float)]
    return choose(known) if known and len(known) == len(keys) else None


def _holds(key: Key, is_float: bool) -> bool:
    if not isinstance(key, int):
        return True
    return int(float(key)) == key if is_float else int(_INT64.min) <= key <= int(_INT64.max)
