"""Fit the columns of a table into a terminal.

Rules: no value is truncated and no column left out. A number, a name or a time keeps its width. The
gaps are reduced first, then long texts are broken over lines, the widest first. If even that does
not fit, there is no layout: each row is shown as a list of its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_GAP = 3
_TIGHT = 2


@dataclass(frozen=True, slots=True)
class Layout:
    """The width of every column, and of the gaps between them."""

    widths: tuple[int, ...]
    gap: int = _GAP

    @property
    def total(self) -> int:
        """The width of the table."""
        return sum(self.widths) + self.gap * (len(self.widths) - 1)


def layout(natural: Sequence[int], least: Sequence[int], room: int | None) -> Layout | None:
    """Return a layout that fits into ``room``; None if there is none.

    Widths are between ``least`` and ``natural``; with ``room`` None they are the natural ones.
    """
    wanted = Layout(tuple(natural))
    if room is None or wanted.total <= room:
        return wanted
    if Layout(tuple(least), _TIGHT).total > room:
        return None
    # One bound for all, as high as the room allows: so the widest are reduced first.
    low, high = 0, max(natural)
    while low < high:
        bound = (low + high + 1) // 2
        if _bounded(natural, least, bound).total <= room:
            low = bound
        else:
            high = bound - 1
    return _bounded(natural, least, low)


def _bounded(natural: Sequence[int], least: Sequence[int], bound: int) -> Layout:
    widths = (max(small, min(wide, bound)) for wide, small in zip(natural, least, strict=True))
    return Layout(tuple(widths), _TIGHT)
