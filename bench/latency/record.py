"""What a proxy saw, as a value: requests, bytes, depth, dollars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bench.latency.prices import dollars

__all__ = ["Exchange", "Record", "chain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its response."""

    begin: float
    """When the whole head of the request was received, in seconds since the record's reset."""
    end: float
    """When the last byte of the response was sent."""
    method: str
    target: str
    """Path and query."""
    status: int
    up: int
    """Bytes of the request's body, without heads and frames."""
    down: int
    """Bytes of the response's body."""
    go_ahead: float | None = None
    """When the client was sent the go-ahead for which it waited; None where it did not wait."""

    def legs(self) -> tuple[tuple[float, float], ...]:
        """The round trips, each as its begin and end: one, or two with a go-ahead."""
        if self.go_ahead is None:
            return ((self.begin, self.end),)
        return ((self.begin, self.go_ahead), (self.go_ahead, self.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """All exchanges that ended since the reset."""

    exchanges: tuple[Exchange, ...]
    connections: int
    """Connections that clients opened since the reset."""
    unfinished: int
    """Requests that have no whole response yet."""

    @property
    def requests(self) -> int:
        return len(self.exchanges)

    @property
    def up(self) -> int:
        return sum(exchange.up for exchange in self.exchanges)

    @property
    def down(self) -> int:
        return sum(exchange.down for exchange in self.exchanges)

    @property
    def dollars(self) -> float:
        return sum(dollars(exchange.method, exchange.target) for exchange in self.exchanges)

    @property
    def depth(self) -> int:
        """The round trips that followed one another."""
        return len(chain(self.exchanges))

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Record:
        """The record of what ``plain`` returned."""
        exchanges = tuple(Exchange(**each) for each in plain["exchanges"])
        return cls(
            exchanges=exchanges,
            connections=plain["connections"],
            unfinished=plain["unfinished"],
        )


def chain(exchanges: Iterable[Exchange]) -> tuple[tuple[float, float], ...]:
    """A longest chain of round trips of which each began after the one before it had ended.

    The one that ends first can always be the first of one: whatever could follow another can follow
    it too.
    """
    found: list[tuple[float, float]] = []
    for begin, end in sorted(
        (leg for exchange in exchanges for leg in exchange.legs()), key=lambda leg: leg[1]
    ):
        if not found or begin >= found[-1][1]:
            found.append((begin, end))
    return tuple(found)
