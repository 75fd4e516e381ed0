"""A budget of extra requests: a share of the requests sent, and a few at once.

Rules:
- Each request earns ``share`` of an extra one; a second without requests earns ``per_s``.
- At most ``burst`` are saved up, and a process starts with these.
"""

from __future__ import annotations


class Budget:
    """How many more extra requests may be sent now."""

    def __init__(self, *, share: float, burst: float, per_s: float = 0.0) -> None:
        self._share = share
        self._burst = burst
        self._per_s = per_s
        self._saved = burst
        self._at_s: float | None = None

    def earn(self) -> None:
        """Note one ordinary request."""
        self._saved = min(self._burst, self._saved + self._share)

    def spend(self, now_s: float) -> bool:
        """Take one extra request, if there is one."""
        if self._at_s is not None:
            passed_s = max(0.0, now_s - self._at_s)
            self._saved = min(self._burst, self._saved + passed_s * self._per_s)
        self._at_s = now_s
        if self._saved < 1:
            return False
        self._saved -= 1
        return True
