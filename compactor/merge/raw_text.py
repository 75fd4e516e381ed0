"""Text that is no UTF-8, as a value of a key: such blocks are written by other programs, and are
merged all the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import total_ordering

__all__ = ["RawText"]


@total_ordering
@dataclass(frozen=True, slots=True)
class RawText:
    """Ordered by its bytes, among its like and among Python's strings: code points order as their
    UTF-8 does."""

    data: bytes

    def __lt__(self, other: object) -> bool:
        if isinstance(other, RawText):
            return self.data < other.data
        if isinstance(other, str):
            return self.data < other.encode()
        return NotImplemented
