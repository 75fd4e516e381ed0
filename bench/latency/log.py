"""The exchanges of a running proxy, open and ended, since the last reset."""

from __future__ import annotations

from collections.abc import Callable

from bench.latency.framing import Head
from bench.latency.record import Exchange, Record

__all__ = ["Log", "Open"]


class Open:
    """An exchange while it runs. Its end is noted before the bytes are sent: a client that has them
    may look at the record at once."""

    def __init__(self, request: Head, clock: Callable[[], float]) -> None:
        self._request = request
        self._clock = clock
        self._begin = clock()
        self._end: float | None = None
        self._go_ahead: float | None = None
        self._whole = False
        self.status = 0
        self.up = 0
        self.down = 0

    def go_ahead(self) -> None:
        """The client is sent the go-ahead now."""
        self._go_ahead = self._clock()

    def sent(self, payload: int, *, last: bool) -> None:
        """Some bytes of the response are sent now."""
        self.down += payload
        self._end = self._clock()
        self._whole |= last

    def close(self) -> None:
        """Nothing follows, whole or not."""
        self._end = self._end or self._clock()
        self._whole = True

    def ended(self, start: float) -> Exchange | None:
        """The exchange with times since ``start``, or None while it runs."""
        if not self._whole or self._end is None:
            return None
        return Exchange(
            begin=round(self._begin - start, 6),
            end=round(self._end - start, 6),
            method=self._request.method,
            target=self._request.target,
            status=self.status,
            up=self.up,
            down=self.down,
            go_ahead=None if self._go_ahead is None else round(self._go_ahead - start, 6),
        )


class Log:
    """Everything since the last reset."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Forget what was seen; an exchange that still runs is not seen any more."""
        self._start = self._clock()
        self._exchanges: list[Open] = []
        self._connections = 0

    def connected(self) -> None:
        """A client opened a connection."""
        self._connections += 1

    def begin(self, request: Head) -> Open:
        """A request's head was received."""
        exchange = Open(request, self._clock)
        self._exchanges.append(exchange)
        return exchange

    def record(self) -> Record:
        """What was seen, in the order in which requests began."""
        ended = [exchange.ended(self._start) for exchange in self._exchanges]
        done = tuple(exchange for exchange in ended if exchange is not None)
        return Record(
            exchanges=done,
            connections=self._connections,
            unfinished=len(ended) - len(done),
        )
