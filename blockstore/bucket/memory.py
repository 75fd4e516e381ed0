"""A bucket in this process's memory: for tests, the simulation and scratch tables
(``memory://name``).

Rules:
- All requests take turns under one lock, so every promise of ``api.py`` holds by construction.
- ``memory_bucket(name)`` gives every caller of one process the same contents for the same name.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from blockstore.bucket.api import Bucket, NotModified, Object, ObjectInfo
from blockstore.bucket.keys import check_key, check_prefix, content_etag
from blockstore.clock import Clock
from blockstore.errors import AlreadyExists, ObjectMissing, PreconditionFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One object."""

    data: bytes
    etag: str
    modified_ms: int


@dataclass(slots=True)
class _Contents:
    """The objects by key, and the keys in order, so that a listing costs what it yields."""

    objects: dict[str, Stored] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class MemoryBucket(Bucket):
    """A bucket that lives as long as this value, or as long as the process where ``contents`` are
    shared."""

    def __init__(
        self, clock: Clock, url: str = "memory://", contents: _Contents | None = None
    ) -> None:
        self.url = url
        self._clock = clock
        self._contents = contents if contents is not None else _Contents()

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        stored = self._stored(key)
        if stored.etag == if_none_match:
            raise NotModified(key)
        return Object(data=stored.data, etag=stored.etag)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._stored(key).data[start : start + length]

    def head(self, key: str) -> ObjectInfo:
        stored = self._stored(key)
        return ObjectInfo(
            key=key, size=len(stored.data), modified_ms=stored.modified_ms, etag=stored.etag
        )

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        with self._contents.lock:
            found = [
                ObjectInfo(
                    key=key, size=len(stored.data), modified_ms=stored.modified_ms, etag=stored.etag
                )
                for key in self._keys_from(prefix, start_after)
                if recursive or "/" not in key[len(prefix) :]
                for stored in (self._contents.objects[key],)
            ]
        return iter(found[:at_most])

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        check_prefix(prefix)
        with self._contents.lock:
            keys = self._keys_from(prefix, "")
        heads = (key[: slash + 1] for key in keys if (slash := key.find("/", len(prefix))) >= 0)
        return iter(dict.fromkeys(heads))

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def put(self, key: str, data: bytes) -> str:
        check_key(key)
        with self._contents.lock:
            return self._store(key, data)

    def put_if_absent(self, key: str, data: bytes) -> str:
        check_key(key)
        with self._contents.lock:
            if key in self._contents.objects:
                raise AlreadyExists(f"the object {key} exists already in {self.url}")
            return self._store(key, data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        check_key(key)
        with self._contents.lock:
            stored = self._contents.objects.get(key)
            if stored is None or stored.etag != etag:
                found = "it is missing" if stored is None else f"its ETag is {stored.etag}"
                raise PreconditionFailed(
                    f"the object {key} in {self.url} was not replaced: {found}, expected {etag}; "
                    "read it again"
                )
            return self._store(key, data)

    def writer(self, key: str) -> _MemoryWriter:
        return _MemoryWriter(self, check_key(key))

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            check_key(key)
            with self._contents.lock:
                if self._contents.objects.pop(key, None) is not None:
                    del self._contents.keys[bisect_left(self._contents.keys, key)]

    def refuses_stale_writes(self) -> bool | None:
        return True

    def _stored(self, key: str) -> Stored:
        stored = self._contents.objects.get(check_key(key))
        if stored is None:
            raise ObjectMissing(f"there is no object {key} in {self.url}")
        return stored

    def _store(self, key: str, data: bytes) -> str:
        """With the lock held."""
        if key not in self._contents.objects:
            insort(self._contents.keys, key)
        kept = bytes(data)
        stored = Stored(data=kept, etag=content_etag(kept), modified_ms=self._clock.now_ms())
        self._contents.objects[key] = stored
        return stored.etag

    def _keys_from(self, prefix: str, start_after: str) -> Sequence[str]:
        """With the lock held:

        Python orders text by code points, which is the order of UTF-8 bytes.
        """
        keys = self._contents.keys
        at = bisect_left(keys, prefix)
        if start_after >= prefix:
            at = bisect_left(keys, start_after)
            at += at < len(keys) and keys[at] == start_after
        end = at
        while end < len(keys) and keys[end].startswith(prefix):
            end += 1
        return keys[at:end]


class _MemoryWriter:
    def __init__(self, bucket: MemoryBucket, key: str) -> None:
        self._bucket = bucket
        self._key = key
        self._pieces: list[bytes] | None = []

    def write(self, data: bytes | memoryview, /) -> int:
        assert self._pieces is not None, "write after close or abort"
        piece = bytes(data)
        self._pieces.append(piece)
        return len(piece)

    def close(self) -> None:
        if self._pieces is not None:
            self._bucket.put(self._key, b"".join(self._pieces))
            self._pieces = None

    def abort(self) -> None:
        self._pieces = None


_shared: dict[str, _Contents] = {}
_shared_lock = threading.Lock()


def memory_bucket(name: str, clock: Clock) -> MemoryBucket:
    """The bucket ``memory://name`` of this process: made at its first use, gone with the
    process."""
    with _shared_lock:
        contents = _shared.setdefault(name, _Contents())
    return MemoryBucket(clock, f"memory://{name}", contents)
