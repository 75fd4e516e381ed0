"""A fate with faults, drawn from a seed, each counted by its kind.

A fault is drawn among those that can happen to the request: a response without a body is not cut,
and a request without a range is not given more than it asked for. Bursts come over everything, in
stretches of time of their own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bench.latency.fate import Course, Fault
from bench.latency.framing import Head

__all__ = ["FAILURES", "Faults", "Faulty"]

FAILURES = tuple(fault for fault in Fault if fault not in (Fault.SLOW, Fault.BURST))
"""What a failing request may meet."""
_WITHIN_RESPONSE = {Fault.RESET_BODY, Fault.TRUNCATED, Fault.SHORT_LENGTH}
_WITH_BODY = ("GET", "POST")
"""The methods whose responses have a body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often what goes wrong."""

    seed: int = 0
    slow: float = 0.01
    """The share of requests that are slow."""
    slow_s: float = 2.0
    failing: float = 0.01
    """The share of requests that fail."""
    kinds: tuple[Fault, ...] = FAILURES
    burst_every_s: float = 15.0
    """The mean time between bursts; 0 for none."""
    burst_s: float = 1.0

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Faults:
        """The faults of what ``plain`` returned."""
        return cls(**{**plain, "kinds": tuple(Fault(kind) for kind in plain["kinds"])})


class Faulty:
    """A fate that draws from ``faults``; ``injected`` counts what it drew."""

    def __init__(self, faults: Faults, *, delay_s: float, clock: Callable[[], float]) -> None:
        self._faults = faults
        self._delay_s = delay_s
        self._clock = clock
        self._dice = random.Random(faults.seed)
        self.injected: Counter[Fault] = Counter()
        self._burst_begins = self._next_burst(clock())

    def __call__(self, request: Head) -> Course:
        fault = self._drawn(request)
        if fault is None:
            return Course(delay_s=self._delay_s)
        self.injected[fault] += 1
        late_s = self._faults.slow_s if fault is Fault.SLOW else 0.0
        return Course(delay_s=self._delay_s + late_s, fault=fault)

    def _drawn(self, request: Head) -> Fault | None:
        if self._in_burst():
            return Fault.BURST
        draw = self._dice.random()
        if draw < self._faults.slow:
            return Fault.SLOW
        if draw >= self._faults.slow + self._faults.failing:
            return None
        kinds = [kind for kind in self._faults.kinds if possible(kind, request)]
        return self._dice.choice(kinds) if kinds else None

    def _in_burst(self) -> bool:
        now = self._clock()
        if now >= self._burst_begins + self._faults.burst_s:
            self._burst_begins = self._next_burst(now)
        return now >= self._burst_begins

    def _next_burst(self, now: float) -> float:
        mean_s = self._faults.burst_every_s
        return now + self._dice.expovariate(1 / mean_s) if mean_s else float("inf")


def possible(fault: Fault, request: Head) -> bool:
    """Whether the fault can happen to the request."""
    if fault in _WITHIN_RESPONSE:
        return request.method in _WITH_BODY
    if fault is Fault.IGNORES_RANGE:
        return request.method == "GET" and "range" in request.fields
    if fault is Fault.RESET_UPLOAD:
        return request.fields.get("content-length", "0") != "0" and not request.expects
    return True
