"""How long requests of a kind take, and when one is late.

Rules:
- A request is late after the 95th percentile of the last ``_KEPT`` of its kind and size class, and
  not before ``_FLOOR_S``. With fewer than ``_ENOUGH`` it never is.
- Every request that succeeded counts with its own duration, also one that was overtaken: else the
  slow ones would go missing, and more and more would seem late.
"""

from __future__ import annotations

from collections import deque

_KEPT = 200
_ENOUGH = 40
_FLOOR_S = 0.010
_EVERY = 10
"""So many durations are noted between two looks at the percentile."""


class Latency:
    """The durations of one kind of request."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_KEPT)
        self._noted = 0
        self._late_s: float | None = None

    def note(self, seconds: float) -> None:
        """Add the duration of a request."""
        self._seconds.append(seconds)
        self._noted += 1
        if len(self._seconds) >= _ENOUGH and (self._late_s is None or self._noted % _EVERY == 0):
            ordered = sorted(self._seconds)
            self._late_s = max(_FLOOR_S, ordered[len(ordered) * 95 // 100])

    @property
    def late_s(self) -> float | None:
        """The seconds after which a request is late; None while too few are known."""
        return self._late_s


def name_class(key: str) -> str:
    """The class of a complete object, whose size is not known before: the ending of its name."""
    ending = key.rpartition("/")[2].rpartition(".")[2]
    return f"get-{ending}" if len(ending) <= 10 else "get"


def size_class(length: int) -> str:
    """The class of a range's length, for which durations are comparable: powers of four."""
    return f"range-{(max(length, 65_536) - 1).bit_length() // 2}"
