"""Counting a process's requests as its store bills them: over ``Metered``, with pages of listings
and parts of uploads.

A listing is one request a thousand objects; an object written in pieces is one request, and, once
it is longer than a part, one a part and two to begin and to end it. What a program reads by path
(``path_of``) goes past every bucket and is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from blockstore.bucket.api import ObjectInfo, ObjectWriter
from blockstore.bucket.metered import Metered
from blockstore.names import META

T = TypeVar("T")

_PAGE = 1000
_PART_BYTES = 16 << 20


class Billed(Metered):
    """``counts`` and ``bytes`` as ``Metered`` has them, every page and part counted."""

    def list(
        self, prefix: str = "", *, start_after: str = "", recursive: bool = True
    ) -> Iterator[ObjectInfo]:
        found = super().list(prefix, start_after=start_after, recursive=recursive)
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
        """Whether somebody bills its requests: nobody bills those to a folder."""
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
        before, self._size = self._size // _PART_BYTES, self._size + size
        parts = self._size // _PART_BYTES - before
        if parts:
            self._meter.add("writer", parts + (2 if before == 0 else 0))
        return size

    def close(self) -> None:
        self._inner.close()

    def abort(self) -> None:
        self._inner.abort()
