"""How many requests must follow one another: a store in which a request takes a while, and side by
side requests take it once.

Requests that are made while another waits for its answer are answered together with it, as one
wave. The waves that an operation needs are the depth of its requests: what an object store's
latency is multiplied by.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from blockstore.bucket.api import Bucket, Object, ObjectInfo
from blockstore.bucket.wrapper import Wrapper
from blockstore.clock import ManualClock

__all__ = ["InTurn"]

_LATENCY_S = 0.025
_GATHER_S = 0.05
"""Real time for which a wave stays open: threads that were handed a request of it have arrived by
then."""


class InTurn(Wrapper):
    """Counts the waves of requests; ``chain`` says what each held."""

    def __init__(self, inner: Bucket, clock: ManualClock) -> None:
        super().__init__(inner)
        self._clock = clock
        self._changed = threading.Condition()
        self._open: list[str] | None = None
        self.chain: list[list[str]] = []

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        self._travel(f"GET {key}")
        return self.inner.get(key, if_none_match=if_none_match)

    def head(self, key: str) -> ObjectInfo:
        self._travel(f"HEAD {key}")
        return self.inner.head(key)

    def list(
        self, prefix: str = "", *, start_after: str = "", recursive: bool = True
    ) -> Iterator[ObjectInfo]:
        self._travel(f"LIST {prefix}")
        return self.inner.list(prefix, start_after=start_after, recursive=recursive)

    def put(self, key: str, data: bytes) -> str:
        self._travel(f"PUT {key}")
        return self.inner.put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> str:
        self._travel(f"PUT {key}")
        return self.inner.put_if_absent(key, data)

    def _travel(self, request: str) -> None:
        with self._changed:
            if self._open is not None:
                wave = self._open
                wave.append(request)
                self._changed.wait_for(lambda: self._open is not wave)
                return
            wave = self._open = [request]
            self._changed.wait(_GATHER_S)
            self._open = None
            self.chain.append(wave)
            self._clock.sleep(_LATENCY_S)
            self._changed.notify_all()
