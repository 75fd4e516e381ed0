"""Folders of a lake that are no tables: checked again, less and less often, for a table may appear
in one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

_RARELY = 32


class NotYet:
    """For one caller at a time; a round is a listing of the lake."""

    def __init__(self) -> None:
        self._waits: dict[str, tuple[int, int]] = {}
        """The rounds between two checks, and the rounds left."""

    def due(self, names: Iterable[str]) -> list[str]:
        """Those to be checked in this round, of all folders that are not known to be tables; the
        others wait one round less, and what is not among them is forgotten."""
        due, waits = [], {}
        for name in names:
            wait, left = self._waits.get(name, (0, 0))
            if left > 0:
                waits[name] = (wait, left - 1)
            else:
                due.append(name)
                longer = min(max(1, 2 * wait), _RARELY) if name in self._waits else 0
                waits[name] = (longer, longer)
        self._waits = waits
        return due

    def checked(self, names: Iterable[str], tables: Collection[str]) -> None:
        """Forget those of the checked ones that are tables."""
        for name in names:
            if name in tables:
                self._waits.pop(name, None)
