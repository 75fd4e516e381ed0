"""Buckets around a bucket that pass on every request: base classes of wrappers, also in tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blockstore.bucket.api import Bucket, Object, ObjectInfo, ObjectWriter, ReadBucket


class ReadOnly(ReadBucket):
    """The reading half of a bucket, for readers: it cannot write by type, nor at run time."""

    def __init__(self, bucket: ReadBucket) -> None:
        self._bucket = bucket
        self.url = bucket.url

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return self._bucket.get(key, if_none_match=if_none_match)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._bucket.get_range(key, start, length)

    def head(self, key: str) -> ObjectInfo:
        return self._bucket.head(key)

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        return self._bucket.list(
            prefix, start_after=start_after, recursive=recursive, at_most=at_most
        )

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        return self._bucket.prefixes(prefix)

    def now_ms(self) -> int:
        return self._bucket.now_ms()

    def path_of(self, key: str) -> str | None:
        return self._bucket.path_of(key)


class Wrapper(Bucket):
    """Every request to ``inner``, unchanged; a subclass overrides some."""

    def __init__(self, inner: Bucket) -> None:
        self.inner = inner
        self.url = inner.url

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return self.inner.get(key, if_none_match=if_none_match)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.inner.get_range(key, start, length)

    def head(self, key: str) -> ObjectInfo:
        return self.inner.head(key)

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        return self.inner.list(
            prefix, start_after=start_after, recursive=recursive, at_most=at_most
        )

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        return self.inner.prefixes(prefix)

    def now_ms(self) -> int:
        return self.inner.now_ms()

    def path_of(self, key: str) -> str | None:
        return self.inner.path_of(key)

    def put(self, key: str, data: bytes) -> str:
        return self.inner.put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> str:
        return self.inner.put_if_absent(key, data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        return self.inner.put_if_match(key, data, etag)

    def writer(self, key: str) -> ObjectWriter:
        return self.inner.writer(key)

    def delete(self, keys: Iterable[str]) -> None:
        self.inner.delete(keys)

    def delete_once(self, key: str) -> None:
        self.inner.delete_once(key)

    def refuses_stale_writes(self) -> bool | None:
        return self.inner.refuses_stale_writes()

    def keeps_versions(self) -> bool | None:
        return self.inner.keeps_versions()
