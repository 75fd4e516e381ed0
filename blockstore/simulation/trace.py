"""What happened, step by step: its end for people, its hash to tell two runs apart.

Rule: nothing goes into the trace that may differ from one machine or process to another.
"""

from __future__ import annotations

import hashlib
from collections import deque

__all__ = ["Trace"]

_KEPT = 3000


class Trace:
    """The events of one run."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._tail: deque[tuple[int, int, str, str]] = deque(maxlen=_KEPT)

    def add(self, step: int, now_ms: int, who: str, what: str) -> None:
        """Take note of one event."""
        self._tail.append((step, now_ms, who, what))
        self._hash.update(f"{step} {now_ms} {who} {what}\n".encode())

    @property
    def digest(self) -> str:
        """The hash of all events."""
        return self._hash.hexdigest()

    def tail(self, start_ms: int, count: int = _KEPT) -> list[str]:
        """The last events, one line each, with the time since the start."""
        return [
            f"{step:>7}  {_since(now_ms - start_ms):>14}  {who:<14} {what}"
            for step, now_ms, who, what in list(self._tail)[-count:]
        ]


def _since(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    days, seconds = divmod(seconds, 86_400)
    return f"{days}d{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"
