"""What happens to a request: the one place that decides it.

The relay asks a ``Fate`` for the ``Course`` of every request, and carries the course out. Faults
are courses too: ``faults.py`` draws them, and ``relay.py`` carries them out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from bench.latency.framing import Head

__all__ = ["Course", "Fate", "Fault", "Steady"]


class Fault(StrEnum):
    """What a store, or the network before it, does wrong to one request."""

    SLOW = "slow"
    """The response comes late, and is right."""
    ERROR = "500"
    """InternalError; the store never saw the request."""
    ERROR_APPLIED = "500 after it was applied"
    SLOW_DOWN = "503"
    """SlowDown; the store never saw the request."""
    RESET_BEFORE = "reset before it was passed on"
    RESET_UPLOAD = "reset within the upload"
    """Half of the request's body was passed on."""
    RESET_AFTER = "reset after it was applied"
    """The store did it, and its response is lost."""
    RESET_BODY = "reset within the response"
    TRUNCATED = "truncated response"
    """The connection ends in order, with half of the bytes that Content-Length says."""
    SHORT_LENGTH = "Content-Length too small"
    """All bytes are sent, and Content-Length says half of them."""
    IGNORES_RANGE = "range ignored"
    """The complete object (200), where a range was requested."""
    BURST = "503 in a burst"
    """SlowDown, for everything in a stretch of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How the relay treats one request."""

    delay_s: float
    """Between the server's response and its first byte at the client; once for each response, so
    twice where the client waits for a go-ahead."""
    fault: Fault | None = None


Fate = Callable[[Head], Course]
"""The course of a request, by its head."""


class Steady:
    """The same delay for every request, until another is set."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s

    def __call__(self, request: Head) -> Course:
        return Course(delay_s=self.delay_s)
