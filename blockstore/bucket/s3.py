"""The bucket behind ``s3://``: obstore for what is frequent, boto3 for what obstore cannot do.

Rules:
- obstore sends reads, listings, plain and conditional writes and single deletes: its import, its
  first request and each later one cost a fraction of boto3's.
- boto3 is imported at its first use. It sends multipart uploads (a failed part can be sent again),
  deletes of more than ``_FEW`` keys (a thousand in one request), listings of a prefix that ends
  within a path part or that show a key such as ``a//b``, and the question for versions.
- boto3 sends everything in a forked child of a process that has used obstore (obstore's threads do
  not survive a fork), for a bucket in another region (it follows there), and where the environment
  says what only boto3 understands (``s3_settings.py``).
- Which client sends a request changes nothing of what it means: both adapters keep the promises of
  ``api.py``, and the contract suite runs on each of them and on this one.
- With one of the two packages missing, the other one sends everything.

A choice is made for each request, so a value of this class may be used across a fork.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

from blockstore.bucket.api import Bucket, Object, ObjectInfo, ObjectWriter
from blockstore.bucket.cloud_stores import Kind, survives_here
from blockstore.bucket.keys import check_key, check_prefix
from blockstore.bucket.s3_settings import needs_boto3
from blockstore.bucket.s3_writer import S3Writer
from blockstore.bucket.traffic.spare import Spare
from blockstore.clock import Clock
from blockstore.errors import BlockstoreError, Invalid, MissingExtra

if TYPE_CHECKING:
    from blockstore.bucket.cloud import CloudBucket
    from blockstore.bucket.s3_boto3 import Boto3Bucket

A = TypeVar("A")

_FEW = 4
"""Importing boto3 costs more than so many requests."""


class S3Bucket(Bucket):
    """The bucket ``name``; threads of ``spare`` send what need not be waited for at once.

    Raises MissingExtra if neither client is installed.
    """

    def __init__(
        self, name: str, clock: Clock, *, connections: int = 64, spare: Spare | None = None
    ) -> None:
        self.url = f"s3://{name}"
        self._name = name
        self._clock = clock
        self._connections = connections
        self._spare = spare
        self._has_boto3, self._has_obstore = installed("boto3"), installed("obstore")
        if not (self._has_boto3 or self._has_obstore):
            raise MissingExtra(
                "s3:// URLs need obstore or boto3, and neither is installed: run pip install "
                "'blocklake[s3]'"
            )
        self._boto3_only = not self._has_obstore
        self._settings_read = False
        self._obstore_bucket: CloudBucket | None = None
        self._boto3_bucket: Boto3Bucket | None = None

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return self._ask(lambda bucket: bucket.get(key, if_none_match=if_none_match))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._ask(lambda bucket: bucket.get_range(key, start, length))

    def head(self, key: str) -> ObjectInfo:
        return self._ask(lambda bucket: bucket.head(key))

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        return self._listed(
            prefix,
            lambda bucket: bucket.list(
                prefix, start_after=start_after, recursive=recursive, at_most=at_most
            ),
        )

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        check_prefix(prefix)
        return self._listed(prefix, lambda bucket: bucket.prefixes(prefix))

    def now_ms(self) -> int:
        return self._ask(lambda bucket: bucket.now_ms())

    def put(self, key: str, data: bytes) -> str:
        return self._ask(lambda bucket: bucket.put(key, data))

    def put_if_absent(self, key: str, data: bytes) -> str:
        return self._ask(lambda bucket: bucket.put_if_absent(key, data))

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        return self._ask(lambda bucket: bucket.put_if_match(key, data, etag))

    def writer(self, key: str) -> ObjectWriter:
        if not self._has_boto3:
            return self._obstore().writer(key)
        return S3Writer(self, check_key(key), self._spare)

    def delete(self, keys: Iterable[str]) -> None:
        remaining = iter(keys)
        first = [*islice(remaining, _FEW + 1)]
        if len(first) > _FEW and self._has_boto3:
            self._boto3().delete(chain(first, remaining))
        else:
            self._ask(lambda bucket: bucket.delete(first))
            if len(first) > _FEW:
                self._ask(lambda bucket: bucket.delete(remaining))

    def keeps_versions(self) -> bool | None:
        return self._boto3().keeps_versions() if self._has_boto3 else None

    def send(self, operation: str, key: str | None = None, **parameters: Any) -> Any:
        """Send one request by boto3."""
        return self._boto3().send(operation, key, **parameters)

    def error(self, error: Exception, key: str, *, write: bool) -> BlockstoreError:
        """Return the typed error of a failed request of ``send``."""
        return self._boto3().error(error, key, write=write)

    def place(self, key: str) -> str:
        """Return the object's place, for messages."""
        return f"{self.url}/{key}".rstrip("/")

    def _ask(self, request: Callable[[Bucket], A]) -> A:
        """Return the result of a request, by the client that is right for it now."""
        if self._sends_boto3():
            return request(self._boto3())
        try:
            return request(self._obstore())
        except Invalid as error:
            self._follow(error)
        return request(self._boto3())

    def _listed(self, prefix: str, listing: Callable[[Bucket], Iterator[A]]) -> Iterator[A]:
        """Return a listing once it is complete, so that the other client can start it again."""
        if prefix != "" and not prefix.endswith("/") and self._has_boto3:
            return listing(self._boto3())
        if self._sends_boto3():
            return listing(self._boto3())
        try:
            return iter([*listing(self._obstore())])
        except Invalid as error:
            from blockstore.bucket.cloud_errors import is_foreign_key

            if not (self._has_boto3 and is_foreign_key(error.__cause__)):
                self._follow(error)
        return listing(self._boto3())

    def _follow(self, refused: Invalid) -> None:
        """Send everything by boto3 from now on, if the bucket is in another region; else raise."""
        from blockstore.bucket.cloud_errors import is_elsewhere

        if not (self._has_boto3 and is_elsewhere(refused.__cause__)):
            raise refused
        self._boto3_only = True

    def _sends_boto3(self) -> bool:
        if not self._settings_read:
            self._boto3_only |= self._has_boto3 and needs_boto3(self._name)
            self._settings_read = True
        return self._boto3_only or (self._has_boto3 and not survives_here())

    def _obstore(self) -> CloudBucket:
        if self._obstore_bucket is None:
            from blockstore.bucket.cloud import CloudBucket

            self._obstore_bucket = CloudBucket(Kind.S3, self._name, self._clock, spare=self._spare)
        return self._obstore_bucket

    def _boto3(self) -> Boto3Bucket:
        if self._boto3_bucket is None:
            from blockstore.bucket.s3_boto3 import Boto3Bucket

            self._boto3_bucket = Boto3Bucket(self._name, self._clock, connections=self._connections)
        return self._boto3_bucket


def installed(package: str) -> bool:
    """Return whether a client can be imported."""
    return importlib.util.find_spec(package) is not None
