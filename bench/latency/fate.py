"""What happens to a request: the one place that decides it.

The relay asks a ``Fate`` for the ``Course`` of every request, and carries the course out. Faults
are courses too: a fate that draws them belongs here, and a course's new field is carried out in
``relay.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.latency.framing import Head

__all__ = ["Course", "Fate", "Steady"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How the relay treats one request."""

    delay_s: float
    """Between the server's response and its first byte at the client; once for each response, so
    twice where the client waits for a go-ahead."""


Fate = Callable[[Head], Course]
"""The course of a request, by its head."""


class Steady:
    """The same delay for every request, until another is set."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s

    def __call__(self, request: Head) -> Course:
        return Course(delay_s=self.delay_s)
