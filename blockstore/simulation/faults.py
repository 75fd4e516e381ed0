"""The fault model: what may happen to a request, a process and a clock. The store itself keeps its
promises.

What the store promises (``bucket/api.py``) holds: a PUT is atomic, a GET sees the last one,
create-if-absent has one winner, If-Match is exact. Listings are current, or, for a table that says
``consistency = eventual``, up to ``STALE_MS`` behind, each key by itself. The order of a listing is
drawn again each time.

To a request, any of these:
- *read fails*: no response (timeout, reset, 5xx); *listing fails*: so many keys come, then an
  error;
- *throttled*: 503, not applied; *contended*: 409 to a conditional write, not applied; *no space*:
  not applied;
- *request lost*: not applied, no response; *answer lost*: applied, no response;
- *late*: no response, and the request arrives by itself later, whatever has happened by then, and
  whether its sender lives or not: within three days, or, for an object of a block, within the
  upload timeout (20 h). Never a DELETE, which no process could survive: the same name may be in use
  again;
- *resent*: applied, its response lost, and sent again by the client's library, which returns the
  second response.

To a process: it is *killed* before a request, after one was applied, or with one on its way, and
starts again as a fresh process after a while; it is *stalled* for minutes or days, before a request
or after its response; it has an *outage* of seconds or minutes, in which none of its requests gets
a response. Its clock is up to an hour off and may be set again at night.

Each run draws how often each fault strikes; some it leaves out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from enum import StrEnum
from itertools import accumulate

from blockstore.simulation.draw import Draw

STALE_MS = 5 * 60_000
"""How far a listing may lag on an eventual store: no more than the least ``sync_delay`` there
(R10)."""


class Ask(StrEnum):
    """What kind of request: which faults it may meet, and how often."""

    READ = "read"
    LIST = "list"
    LOOK = "look"
    """A listing of one block's directory: the last look before its uploader says that it is
    there."""
    PUT = "put"
    SEAL = "seal"
    """A PUT that decides something: meta.json, a mark."""
    CREATE = "create"
    SWAP = "swap"
    DELETE = "delete"


class Fault(StrEnum):
    """What happens to a request."""

    NONE = "none"
    READ_FAILS = "read fails"
    LIST_FAILS = "listing fails midway"
    THROTTLED = "throttled"
    CONTENDED = "contended (409)"
    NO_SPACE = "no space"
    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"
    LATE = "delivered late"
    RESENT = "resent by the library"
    KILLED_BEFORE = "killed before a request"
    KILLED_AFTER = "killed after a request"
    KILLED_SENDING = "killed with a request on its way"
    STALLED = "stalled"
    OUTAGE = "outage"


_READS = frozenset({Ask.READ, Ask.LIST, Ask.LOOK})
_CONDITIONAL = frozenset({Ask.CREATE, Ask.SWAP})
_DECISIVE = frozenset({Ask.SEAL, *_CONDITIONAL})
_PUTS = frozenset({Ask.PUT, *_DECISIVE})
_WRITES = frozenset({Ask.DELETE, *_PUTS})
_ALL = frozenset(Ask)

_MODEL: Mapping[Fault, Mapping[Ask, float]] = {
    Fault.READ_FAILS: dict.fromkeys(_READS, 0.008),
    Fault.LIST_FAILS: {Ask.LIST: 0.030, Ask.LOOK: 0.020},
    Fault.THROTTLED: dict.fromkeys(_ALL, 0.008) | {Ask.CREATE: 0.045},
    Fault.CONTENDED: dict.fromkeys(_CONDITIONAL, 0.050),
    Fault.NO_SPACE: dict.fromkeys(_PUTS, 0.012),
    Fault.REQUEST_LOST: dict.fromkeys(_WRITES, 0.015) | {Ask.CREATE: 0.035},
    Fault.ANSWER_LOST: dict.fromkeys(_WRITES, 0.025) | {Ask.CREATE: 0.045},
    Fault.LATE: dict.fromkeys(_PUTS, 0.020) | {Ask.CREATE: 0.050},
    Fault.RESENT: dict.fromkeys(_PUTS, 0.020) | {Ask.CREATE: 0.045},
    Fault.KILLED_BEFORE: dict.fromkeys(_ALL, 0.0015),
    Fault.KILLED_AFTER: dict.fromkeys(_WRITES, 0.012),
    Fault.KILLED_SENDING: dict.fromkeys(_PUTS, 0.011),
    Fault.STALLED: dict.fromkeys(_ALL, 0.001)
    | dict.fromkeys(_DECISIVE, 0.015)
    | {Ask.LOOK: 0.010, Ask.DELETE: 0.010},
    Fault.OUTAGE: dict.fromkeys(_ALL, 0.0025),
}
"""How often a fault strikes a request of a kind, before a run draws its own mood. A process stalls
where it hurts: between what it has seen and what it does."""

_MOODS = (0.0, 0.5, 1.0, 1.0, 2.0)


class Faults:
    """The faults of one run. ``on`` says whether any strikes."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self.on = True
        moods = {fault: draw.choice(_MOODS) for fault in _MODEL}
        self._tables = {
            ask: _Table(
                {
                    fault: rates[ask] * moods[fault]
                    for fault, rates in _MODEL.items()
                    if ask in rates
                }
            )
            for ask in Ask
        }

    def strike(self, ask: Ask) -> Fault:
        """What happens to the next request of this kind."""
        return self._tables[ask].at(self._draw.unit()) if self.on else Fault.NONE


class _Table:
    """Faults by probability."""

    def __init__(self, rates: Mapping[Fault, float]) -> None:
        self._faults = (*rates, Fault.NONE)
        self._bounds = list(accumulate(rates.values()))

    def at(self, unit: float) -> Fault:
        return self._faults[bisect_right(self._bounds, unit)]
