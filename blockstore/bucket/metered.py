"""A bucket that counts requests and bytes by method, for metrics and for tests of request budgets.

One call is one request, except ``list`` and ``prefixes`` (one for each thousand objects on S3),
``delete`` (one for each key) and ``writer`` (one for each part). ``delete`` counts its keys; a
writer counts when it is opened.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator

from blockstore.bucket.api import Bucket, Object, ObjectInfo, ObjectWriter
from blockstore.bucket.wrapper import Wrapper


class Metered(Wrapper):
    """``counts[method]`` calls made, failed ones too, and ``bytes[method]`` bytes read or
    written."""

    def __init__(self, bucket: Bucket) -> None:
        super().__init__(bucket)
        self.counts: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self._lock = threading.Lock()

    def reset(self) -> None:
        """Start again at zero."""
        with self._lock:
            self.counts.clear()
            self.bytes.clear()

    def add(self, method: str, calls: int = 0, size: int = 0) -> None:
        """Count ``calls`` calls of ``method`` and ``size`` bytes."""
        with self._lock:
            self.counts[method] += calls
            self.bytes[method] += size

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        self.add("get", 1)
        found = self.inner.get(key, if_none_match=if_none_match)
        self.add("get", size=len(found.data))
        return found

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.add("get_range", 1)
        data = self.inner.get_range(key, start, length)
        self.add("get_range", size=len(data))
        return data

    def head(self, key: str) -> ObjectInfo:
        self.add("head", 1)
        return self.inner.head(key)

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        self.add("list", 1)
        return self.inner.list(
            prefix, start_after=start_after, recursive=recursive, at_most=at_most
        )

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        self.add("prefixes", 1)
        return self.inner.prefixes(prefix)

    def now_ms(self) -> int:
        self.add("now_ms", 1)
        return self.inner.now_ms()

    def put(self, key: str, data: bytes) -> str:
        self.add("put", 1, len(data))
        return self.inner.put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> str:
        self.add("put_if_absent", 1, len(data))
        return self.inner.put_if_absent(key, data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        self.add("put_if_match", 1, len(data))
        return self.inner.put_if_match(key, data, etag)

    def writer(self, key: str) -> ObjectWriter:
        self.add("writer", 1)
        return _MeteredWriter(self, self.inner.writer(key))

    def delete(self, keys: Iterable[str]) -> None:
        listed = list(keys)
        self.add("delete", len(listed))
        self.inner.delete(listed)

    def delete_once(self, key: str) -> None:
        self.add("delete", 1)
        self.inner.delete_once(key)


class _MeteredWriter:
    def __init__(self, meter: Metered, inner: ObjectWriter) -> None:
        self._meter = meter
        self._inner = inner

    def write(self, data: bytes | memoryview, /) -> int:
        size = self._inner.write(data)
        self._meter.add("writer", size=size)
        return size

    def close(self) -> None:
        self._inner.close()

    def abort(self) -> None:
        self._inner.abort()
