"""Where the leaves of a sorted run of ULIDs end. Pure; the same for every process and history.

Rules:
- A ULID is an end if the first bits of the SHA-256 of its 26 characters are zero. The ULIDs after
  one end, up to and with the next, are a stretch.
- A stretch is one leaf, unless it has too many items or bytes. Then it is cut behind the ULID with
  the smallest hash, the last one left out, and each part again, until it is small enough or one
  item is left.
- So a change of one item changes the leaves of its own stretch, and where it is an end those of the
  next one. Whoever chooses ULIDs so that a stretch is long shifts nothing in others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blockstore.index.ulids import UlidArray

MOST_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How long leaves are."""

    bits: int
    """So many bits of an end's hash are zero: the average leaf has two to the power of it."""
    most: int
    """The most items of a leaf."""

    def is_end(self, ulid: str) -> bool:
        """Whether a leaf always ends behind this ULID."""
        return _hash(ulid.encode("ascii")) >> (64 - self.bits) == 0


BLOCKS = Rule(bits=10, most=4_096)
SOURCES = Rule(bits=12, most=16_384)


def ends(ulids: UlidArray, sizes: Sequence[int], rule: Rule) -> list[int]:
    """Behind which items leaves end, as counts from the start, which must be the start of a
    stretch; the last is ``len(ulids)``."""
    hashes = [_hash(ulid) for ulid in ulids.tolist()]
    found: list[int] = []
    start, shift = 0, 64 - rule.bits
    for place, one in enumerate(hashes):
        if one >> shift == 0 or place == len(hashes) - 1:
            found += _cut(hashes, sizes, start, place + 1, rule)
            start = place + 1
    return found


def _cut(
    hashes: Sequence[int], sizes: Sequence[int], start: int, stop: int, rule: Rule
) -> list[int]:
    """The ends of the leaves of one stretch."""
    found, open_ = [], [(start, stop)]
    while open_:
        first, last = open_.pop()
        small = last - first <= rule.most and sum(sizes[first:last]) <= MOST_BYTES
        if small or last - first == 1:
            found.append(last)
            continue
        behind = min(range(first, last - 1), key=lambda place: (hashes[place], place)) + 1
        open_ += [(behind, last), (first, behind)]
    return found


def _hash(ulid: bytes) -> int:
    return int.from_bytes(hashlib.sha256(ulid).digest()[:8], "big")


def nothing(items: int) -> Sequence[int]:
    """Sizes of items that have no bytes worth counting."""
    return np.zeros(items, dtype=np.int64).tolist()
