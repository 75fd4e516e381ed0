"""An S3 bucket through boto3: all of it on request, else what obstore cannot do (``s3.py``).

Rules:
- Each request is sent once (``s3_client.py``); its response is classified in ``s3_errors.py`` and
  nowhere else.
- ETags travel unquoted: some stores compare the quotes too.
- Deletes go a thousand at a time (``s3_delete.py``).
- Listings are also right on stores that order by folder (``a/b`` before ``a-b``): the store skips
  only keys that both orders skip, the rest is filtered here. Keys that end in ``/`` (folder markers
  of consoles) are not objects.
- ``now_ms`` is never ahead of the store's clock: the Date of a response not older than a minute,
  plus our time since.

Several processes may share a value of this class: clients are made after the fork
(``s3_client.py``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any

from blockstore.bucket.api import Bucket, NotModified, Object, ObjectInfo
from blockstore.bucket.keys import check_key, check_prefix, skippable
from blockstore.bucket.ranges import checked_range, parse_content_range, range_of_all
from blockstore.bucket.s3_client import require_boto3, shared_client
from blockstore.bucket.s3_settings import encryption
from blockstore.bucket.traffic.spare import Spare
from blockstore.clock import Clock
from blockstore.errors import (
    AlreadyExists,
    BlockstoreError,
    NotFound,
    ObjectMissing,
    PreconditionFailed,
    Unavailable,
)
from blockstore.freshness import Freshness

require_boto3()

from blockstore.bucket.s3_delete import S3Deletes  # noqa: E402
from blockstore.bucket.s3_errors import FAILURES, classify, status_and_code  # noqa: E402
from blockstore.bucket.s3_writer import S3Writer  # noqa: E402

_DATE_LASTS_S = 60.0
_PAGE = 1000
_MAKES = frozenset({"put_object", "create_multipart_upload"})
"""The requests that make objects, which the store may be asked to encrypt."""


class Boto3Bucket(Bucket):
    """The bucket ``name``; at most ``connections`` are kept open, one for each thread.

    Threads of ``spare`` send the parts of large objects.
    """

    def __init__(
        self, name: str, clock: Clock, *, connections: int = 64, spare: Spare | None = None
    ) -> None:
        self.url = f"s3://{name}?client=boto3"
        self._name = name
        self._clock = clock
        self._connections = connections
        self._spare = spare
        self._client: Any = None
        self._pid = -1
        self._date: tuple[Freshness, int] | None = None
        self._deletes = S3Deletes(self)

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        condition = {} if if_none_match is None else {"IfNoneMatch": if_none_match}
        try:
            response = self.send("get_object", key, **condition)
            data = response["Body"].read()
        except FAILURES as error:
            if status_and_code(error)[0] == 304:
                raise NotModified(key) from None
            raise self.error(error, key, write=False) from error
        return Object(data=data, etag=_etag(response))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if length <= 0:
            self.head(key)
            return b""
        try:
            response = self.send("get_object", key, Range=f"bytes={start}-{start + length - 1}")
            data: bytes = response["Body"].read()
        except FAILURES as error:
            if status_and_code(error)[0] == 416:
                return b""
            raise self.error(error, key, write=False) from error
        if response["ResponseMetadata"]["HTTPStatusCode"] != 206:
            return range_of_all(data, start, length, self.place(""))
        found = parse_content_range(response.get("ContentRange", ""))
        return checked_range(data, found, start, length, self.place(key))

    def head(self, key: str) -> ObjectInfo:
        try:
            response = self.send("head_object", key)
        except FAILURES as error:
            raise self.error(error, key, write=False) from error
        return ObjectInfo(
            key=key,
            size=response["ContentLength"],
            modified_ms=_ms(response["LastModified"]),
            etag=_etag(response),
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
        if start_after > prefix and not start_after.startswith(prefix):
            return iter(())
        return islice(self._list(prefix, start_after, recursive, at_most), at_most)

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        check_prefix(prefix)
        for page in self._pages(prefix, "", "/"):
            for found in page.get("CommonPrefixes", ()):
                yield found["Prefix"]

    def now_ms(self) -> int:
        if self._date is None or self._date[0].is_over:
            try:
                self.send("head_bucket")
            except FAILURES as error:
                # A refusal has a Date too.
                if status_and_code(error)[0] == 0:
                    raise self.error(error, "", write=False) from error
        if self._date is None:
            return self._clock.now_ms()
        fresh, store_ms = self._date
        return store_ms + int(fresh.passed_s * 1000)

    def put(self, key: str, data: bytes) -> str:
        try:
            return _etag(self.send("put_object", key, Body=data))
        except FAILURES as error:
            raise self.error(error, key, write=True) from error

    def put_if_absent(self, key: str, data: bytes) -> str:
        try:
            return _etag(self.send("put_object", key, Body=data, IfNoneMatch="*"))
        except FAILURES as error:
            if status_and_code(error)[0] == 412:
                raise AlreadyExists(f"the object {self.place(key)} exists already") from None
            raise self.error(error, key, write=True) from error

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        try:
            return _etag(self.send("put_object", key, Body=data, IfMatch=etag))
        except FAILURES as error:
            typed = self.error(error, key, write=True)
            if isinstance(typed, ObjectMissing):
                raise PreconditionFailed(
                    f"the object {self.place(key)} was not replaced: it is missing, expected ETag "
                    f"{etag}; read it again"
                ) from None
            raise typed from error

    def writer(self, key: str) -> S3Writer:
        return S3Writer(self, check_key(key), self._spare)

    def delete(self, keys: Iterable[str]) -> None:
        self._deletes.delete(keys)

    def keeps_versions(self) -> bool | None:
        try:
            status = self.send("get_bucket_versioning").get("Status")
        except FAILURES as error:
            typed = self.error(error, "", write=False)
            if isinstance(typed, NotFound):
                raise typed from error
            return None  # unknown: the store, or our rights, do not allow the question
        return status == "Enabled"

    def send(self, operation: str, key: str | None = None, **parameters: Any) -> Any:
        """Send one request by boto3; its Date sets our idea of the store's clock."""
        if self._pid != os.getpid():
            self._client = shared_client(self._connections)
            self._pid = os.getpid()
        if key is not None:
            parameters["Key"] = check_key(key)
        if operation in _MAKES:
            parameters |= encryption()
        try:
            response = getattr(self._client, operation)(Bucket=self._name, **parameters)
        except FAILURES as error:
            if status_and_code(error)[0]:
                self._note_date(getattr(error, "response", None))
            raise
        self._note_date(response)
        return response

    def error(self, error: Exception, key: str, *, write: bool) -> BlockstoreError:
        """Return the typed error of a failed request for ``key``."""
        return classify(error, self.place(key), self._name, write=write)

    def place(self, key: str) -> str:
        """Return the object's place, for messages."""
        return f"s3://{self._name}/{key}".rstrip("/")

    def _list(
        self, prefix: str, start_after: str, recursive: bool, at_most: int | None
    ) -> Iterator[ObjectInfo]:
        skipped = skippable(prefix, start_after)
        for page in self._pages(prefix, skipped, "" if recursive else "/", at_most):
            for found in page.get("Contents", ()):
                key = found["Key"]
                if key > start_after and not key.endswith("/"):
                    yield ObjectInfo(
                        key=key,
                        size=found["Size"],
                        modified_ms=_ms(found["LastModified"]),
                        etag=_etag(found) if "ETag" in found else None,
                    )

    def _pages(
        self, prefix: str, start_after: str, delimiter: str, at_most: int | None = None
    ) -> Iterator[Any]:
        parameters: dict[str, Any] = {"Prefix": prefix}
        if at_most is not None:
            parameters["MaxKeys"] = min(at_most, _PAGE)
        if start_after:
            parameters["StartAfter"] = start_after
        if delimiter:
            parameters["Delimiter"] = delimiter
        while True:
            try:
                page = self.send("list_objects_v2", **parameters)
            except FAILURES as error:
                raise self.error(error, prefix, write=False) from error
            if not page.keys() - {"ResponseMetadata"}:
                # boto3 takes an empty response for a listing of no keys.
                raise Unavailable(
                    f"the response to a listing of {self.place(prefix)} is empty, expected a "
                    "listing: try again; if it stays so, a proxy or the store changes responses"
                )
            yield page
            if not page.get("IsTruncated"):
                return
            parameters["ContinuationToken"] = page["NextContinuationToken"]

    def _note_date(self, response: Any) -> None:
        date = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if date:
            try:
                store_ms = int(parsedate_to_datetime(date).timestamp() * 1000)
            except ValueError:
                return  # not a date: as if there were none
            self._date = (Freshness(self._clock, _DATE_LASTS_S), store_ms)


def _etag(response: Any) -> str:
    etag: str = response["ETag"]
    return etag.strip('"')


def _ms(time: Any) -> int:
    return round(time.timestamp() * 1000)
