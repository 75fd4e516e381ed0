"""What a store charges: requests by price class, and an estimate for a month.

Rules:
- Three classes, as the large stores bill: ``write`` (PUT, POST, LIST), ``read`` (GET, HEAD),
  ``delete``.
- The estimate takes the requests of at most the last day, and of at least an hour: the first
  minutes of a process are busier than its life.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from blockstore.clock import Clock
from blockstore.service import kinds
from blockstore.service.config import Key, Section

CLASS_OF = {
    "get": "read",
    "get_range": "read",
    "head": "read",
    "now_ms": "read",
    "list": "write",
    "prefixes": "write",
    "put": "write",
    "put_if_absent": "write",
    "put_if_match": "write",
    "writer": "write",
    "delete": "delete",
}
"""The price class of each method of a bucket."""

_HOUR_S = 3600.0
_DAY_S = 24 * _HOUR_S
_MONTH_S = 30 * _DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a thousand requests of each class cost."""

    write_per_1000: float = 0.005
    read_per_1000: float = 0.0004
    delete_per_1000: float = 0.0

    def cost(self, requests: Mapping[str, float]) -> dict[str, float]:
        """What these requests, by class, cost."""
        each = {
            "write": self.write_per_1000,
            "read": self.read_per_1000,
            "delete": self.delete_per_1000,
        }
        return {name: requests.get(name, 0) * price / 1000 for name, price in each.items()}


def _key(name: str, default: float, requests: str) -> Key:
    return Key(
        name=name,
        default=default,
        read=kinds.between(kinds.number, 0),
        sentence=f"What a thousand {requests} requests cost, in your currency.",
    )


PRICES = Section(
    name="prices",
    sentence="What the store charges, for the metric that estimates a month. The defaults are "
    "list prices of a large store; "
    "a folder costs nothing whatever stands here.",
    build=Prices,
    keys=(
        _key("write_per_1000", 0.005, "PUT, POST and LIST"),
        _key("read_per_1000", 0.0004, "GET and HEAD"),
        _key("delete_per_1000", 0.0, "DELETE"),
    ),
)


class MonthlyCost:
    """The cost of a month at the pace of late, by class. Safe to share between threads."""

    def __init__(self, prices: Prices, clock: Clock) -> None:
        self._prices = prices
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: deque[tuple[float, dict[str, float]]] = deque([(clock.monotonic_s(), {})])

    def estimate(self, requests: Mapping[str, float]) -> dict[str, float]:
        """The estimate, from how many requests of each class there were in all until now."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            if now_s - self._seen[-1][0] >= _HOUR_S / 4:
                self._seen.append((now_s, dict(requests)))
            while len(self._seen) > 1 and now_s - self._seen[1][0] >= _DAY_S:
                self._seen.popleft()
            since_s, before = self._seen[0]
        pace = _MONTH_S / max(now_s - since_s, _HOUR_S)
        return self._prices.cost(
            {name: (count - before.get(name, 0)) * pace for name, count in requests.items()}
        )
