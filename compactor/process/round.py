"""One table's round: which of its passes have run since its folder was listed, and what each said
of the time until there is work again.

Safe to share between threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from blockstore.compactor.process.resting import NOW, Due, earliest

_HURRIES = 3
"""So many rounds in an hour follow the one before at once."""

_HOUR_S = 3600.0


class Round:
    """The passes of one table by name. A pass that fails, or that began before the listing, does
    not count."""

    def __init__(
        self, names: Iterable[str], *, mark: bytes | None, hurried_s: tuple[float, ...]
    ) -> None:
        self.mark = mark
        """The fingerprint of the folder before these passes; None if it is not known."""
        self._names = frozenset(names)
        self._lock = threading.Lock()
        self._number = 0
        self._running: dict[str, int] = {}
        self._dues: dict[str, Due] = {}
        self.hurried_s = hurried_s
        """When rounds followed others at once, lately."""

    def started(self, name: str) -> None:
        """A pass begins."""
        with self._lock:
            self._running[name] = self._number

    def failed(self, name: str) -> None:
        """A pass ended with an error."""
        with self._lock:
            self._running.pop(name, None)
            self._dues.pop(name, None)

    def ended(self, name: str, due: Due) -> None:
        """A pass has succeeded, and says when there is work again."""
        with self._lock:
            if self._running.pop(name, None) == self._number:
                self._dues[name] = due

    @property
    def complete(self) -> bool:
        """Whether all passes have run, and none does now."""
        with self._lock:
            return not self._running and self._dues.keys() == self._names

    @property
    def due(self) -> Due:
        """The earliest time of all passes."""
        with self._lock:
            return earliest(self._dues.values())

    @property
    def restless(self) -> bool:
        """Whether a pass has something pending."""
        return self.due == NOW

    def again(self, mark: bytes | None) -> None:
        """Begin another round, of this folder."""
        with self._lock:
            self.mark = mark
            self._number += 1
            self._dues.clear()

    def may_hurry(self, now_s: float) -> bool:
        """Whether the next round may begin at once: a few may in an hour, so that a table comes to
        rest soon, and one that changes all the while costs little more."""
        with self._lock:
            lately = tuple(one for one in self.hurried_s if now_s - one < _HOUR_S)
            may = len(lately) < _HURRIES
            self.hurried_s = (*lately, now_s) if may else lately
            return may
