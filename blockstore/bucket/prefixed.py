"""A folder of a bucket as a bucket: every key gets a prefix, which listings strip.

Serves ``s3://bucket/prefix`` and ``memory://name/prefix``, and a table as a part of its lake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import quote

from blockstore.bucket.api import Bucket, Object, ObjectInfo, ObjectWriter
from blockstore.bucket.keys import check_key, check_prefix
from blockstore.bucket.wrapper import Wrapper


class Prefixed(Wrapper):
    """The objects of ``bucket`` below ``prefix``, under keys relative to it."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        super().__init__(bucket)
        self._prefix = check_key(prefix.strip("/")) + "/"
        base, question, query = bucket.url.partition("?")
        inside = quote(self._prefix[:-1]) if base.startswith("file:") else self._prefix[:-1]
        self.url = f"{base.rstrip('/')}/{inside}{question}{query}"

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return self.inner.get(self._full(key), if_none_match=if_none_match)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.inner.get_range(self._full(key), start, length)

    def head(self, key: str) -> ObjectInfo:
        return self._relative(self.inner.head(self._full(key)))

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        after = self._prefix + start_after if start_after else ""
        listing = self.inner.list(
            self._prefix + check_prefix(prefix),
            start_after=after,
            recursive=recursive,
            at_most=at_most,
        )
        return map(self._relative, listing)

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        return (
            found[len(self._prefix) :]
            for found in self.inner.prefixes(self._prefix + check_prefix(prefix))
        )

    def path_of(self, key: str) -> str | None:
        return self.inner.path_of(self._full(key))

    def put(self, key: str, data: bytes) -> str:
        return self.inner.put(self._full(key), data)

    def put_if_absent(self, key: str, data: bytes) -> str:
        return self.inner.put_if_absent(self._full(key), data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        return self.inner.put_if_match(self._full(key), data, etag)

    def writer(self, key: str) -> ObjectWriter:
        return self.inner.writer(self._full(key))

    def delete(self, keys: Iterable[str]) -> None:
        self.inner.delete(self._full(key) for key in keys)

    def delete_once(self, key: str) -> None:
        self.inner.delete_once(self._full(key))

    def _full(self, key: str) -> str:
        return self._prefix + check_key(key)

    def _relative(self, info: ObjectInfo) -> ObjectInfo:
        return ObjectInfo(
            key=info.key[len(self._prefix) :],
            size=info.size,
            modified_ms=info.modified_ms,
            etag=info.etag,
        )
