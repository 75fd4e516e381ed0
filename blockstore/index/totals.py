"""Sums over a set of live blocks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over all blocks of a set."""

    rows: int
    bytes: int
    min_max_time: int
    """The least ``max_time``; 0 of no block."""
