"""What a store bills: the requests of this process, their prices, and an estimate for a month.

Rules:
- There are three price classes, as at the large stores: ``write`` (PUT, POST, LIST), ``read`` (GET,
  HEAD) and ``delete``.
- A listing is one request per thousand objects. An object that is written in pieces is one request;
  once it is large, it is one request per part and two more to begin and to end it.
- What a program reads by path (``path_of``) does not pass through a bucket and is not counted.
- The estimate uses the requests of at most the last day, and of at least an hour: a process is
  busier in its first minutes than later.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from blockstore.bucket.api import ObjectInfo, ObjectWriter
from blockstore.bucket.metered import Metered
from blockstore.clock import Clock
from blockstore.names import META
from blockstore.service import kinds
from blockstore.service.config import Key, Section

T = TypeVar("T")

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

_PAGE = 1000
_SMALL_BYTES = 16 << 20
_PART_BYTES = 8 << 20
_HOUR_S = 3600.0
_DAY_S = 24 * _HOUR_S
_MONTH_S = 30 * _DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The price of a thousand requests of each class."""

    write_per_1000: float = 0.005
    read_per_1000: float = 0.0004
    delete_per_1000: float = 0.0

    def cost(self, requests: Mapping[str, float]) -> dict[str, float]:
        """The cost of these requests, by class."""
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
        sentence=f"The price of a thousand {requests} requests, in your currency.",
    )


PRICES = Section(
    name="prices",
    sentence="The prices of the store, for the metric that estimates a month. The defaults are "
    "list prices of a large store; a folder is always free.",
    build=Prices,
    keys=(
        _key("write_per_1000", 0.005, "PUT, POST and LIST"),
        _key("read_per_1000", 0.0004, "GET and HEAD"),
        _key("delete_per_1000", 0.0, "DELETE"),
    ),
)


class MonthlyCost:
    """The cost of a month at the recent rate, by class. Safe to share between threads."""

    def __init__(self, prices: Prices, clock: Clock) -> None:
        self._prices = prices
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: deque[tuple[float, dict[str, float]]] = deque([(clock.monotonic_s(), {})])

    def estimate(self, requests: Mapping[str, float]) -> dict[str, float]:
        """The estimate; ``requests`` are the totals by class until now."""
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


class Billed(Metered):
    """``Metered``, with every page of a listing and every part of an upload counted."""

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        found = super().list(prefix, start_after=start_after, recursive=recursive, at_most=at_most)
        return self._paged("list", found)

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        return self._paged("prefixes", super().prefixes(prefix))

    def writer(self, key: str) -> ObjectWriter:
        return _BilledWriter(self, super().writer(key))

    def _paged(self, method: str, found: Iterator[T]) -> Iterator[T]:
        for number, one in enumerate(found):
            if number and number % _PAGE == 0:
                self.add(method, 1)
            yield one

    @property
    def costs(self) -> bool:
        """Whether its requests cost money: those to a folder do not."""
        return self.path_of(META) is None

    def totals(self) -> dict[str, tuple[int, int]]:
        """Requests and bytes of each method until now."""
        with self._lock:
            return {
                method: (self.counts[method], self.bytes[method])
                for method in {*self.counts, *self.bytes}
            }


class _BilledWriter:
    def __init__(self, meter: Billed, inner: ObjectWriter) -> None:
        self._meter = meter
        self._inner = inner
        self._size = 0

    def write(self, data: bytes | memoryview, /) -> int:
        size = self._inner.write(data)
        before, self._size = _parts_sent(self._size), self._size + size
        parts = _parts_sent(self._size) - before
        if parts:
            self._meter.add("writer", parts + (2 if before == 0 else 0))
        return size

    def close(self) -> None:
        self._inner.close()

    def abort(self) -> None:
        self._inner.abort()


def _parts_sent(size: int) -> int:
    """The parts of so many bytes, without the last one."""
    return (size - 1) // _PART_BYTES if size >= _SMALL_BYTES else 0
