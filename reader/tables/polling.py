"""When a table is polled: pure decisions over seconds.

Rules:
- A table in use is polled every ``interval_s``, plus or minus a tenth, so that many gateways do not
  poll at the same time.
- After failures the wait doubles, up to ``slowest_s``, so that a failing store gets less load.
- A table that was not asked for within ``active_for_s`` is not polled; its next query polls it
  first.
- A lake is listed as often as tables are polled; a very large one once for each page of the listing
  a second, so that listings cost at most ``60`` requests a minute.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.errors import Invalid

_JITTER = 0.1
_PAGE = 1_000
"""Folders that one request lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """How tables are kept fresh."""

    interval_s: float = 15.0
    active_for_s: float = 600.0
    max_staleness_s: float = 600.0
    slowest_s: float = 120.0
    """The longest wait between two polls of a failing table."""
    discovery: str = "index"
    """``index``, or ``list`` to find blocks that no entry names yet."""

    def __post_init__(self) -> None:
        if self.discovery not in ("index", "list"):
            raise Invalid(f"discovery is {self.discovery!r}, expected 'index' or 'list'")
        if self.interval_s <= 0:
            raise Invalid(
                f"poll is {self.interval_s:g}s, and must be greater than zero: 15s is the default"
            )
        if self.max_staleness_s < self.interval_s:
            raise Invalid(
                f"max_staleness ({self.max_staleness_s:g}s) is shorter than poll "
                f"({self.interval_s:g}s), so every query would fail: raise max_staleness, or poll "
                "more often"
            )

    def wait_s(self, failures: int, draw: float) -> float:
        """Seconds until the next poll, after so many failures in a row; ``draw`` is a random number
        from -1 to 1."""
        if failures == 0:
            return self.interval_s * (1 + _JITTER * draw)
        slowest = max(self.slowest_s, self.interval_s)
        backed_off = min(self.interval_s * 2.0 ** min(failures, 30), slowest)
        return backed_off * (1 + _JITTER * draw)

    def listing_wait_s(self, tables: int, draw: float) -> float:
        """Seconds until the next listing of lakes with so many tables."""
        return max(self.wait_s(0, draw), tables / _PAGE)

    def is_idle(self, asked_s: float | None, now_s: float) -> bool:
        """Whether the table had no query lately, or never."""
        return asked_s is None or now_s - asked_s > self.active_for_s

    def is_due_on_demand(self, fresh_s: float | None, now_s: float) -> bool:
        """Whether a query must poll first, because the last successful poll is too old."""
        return fresh_s is None or now_s - fresh_s > 2 * self.interval_s
