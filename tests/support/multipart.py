"""The multipart requests of an S3 store, carried out on any bucket: for tests of what sends them.

It keeps the parts of each upload, as a store does, and shows an object once its upload is complete.
Faults are given by the number of the request, from 1: one that is ``refused`` was not carried out,
of one whose ``answer`` is ``lost`` only the answer is missing.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError

from blockstore.bucket.api import Bucket, ObjectInfo, ObjectWriter
from blockstore.bucket.s3_errors import classify
from blockstore.bucket.s3_writer import Beside, S3Writer
from blockstore.bucket.wrapper import Wrapper
from blockstore.errors import BlockstoreError
from tests.support.depth import DepthBucket

__all__ = ["Multipart"]


class Multipart(Wrapper):
    """``inner``, to which large objects are written by S3's multipart requests."""

    def __init__(
        self,
        inner: Bucket,
        beside: Beside | None = None,
        *,
        refused: Collection[int] = (),
        lost: Collection[int] = (),
    ) -> None:
        super().__init__(inner)
        self.sent: list[str] = []
        self.open: dict[str, dict[int, bytes]] = {}
        """The uploads that are neither complete nor aborted, each with its parts."""
        self.most_parts = 0
        """The most parts that were on their way at the same time."""
        self._beside = beside
        self._refused, self._lost = frozenset(refused), frozenset(lost)
        self._etags: dict[str, str] = {}
        self._on_their_way = 0
        self._lock = threading.Lock()

    def writer(self, key: str) -> ObjectWriter:
        return S3Writer(self, key, self._beside)

    def head(self, key: str) -> ObjectInfo:
        found = self.inner.head(key)
        return replace(found, etag=self._etags.get(key, found.etag))

    def send(self, operation: str, key: str | None = None, **parameters: Any) -> Any:
        assert key is not None
        is_part = operation == "upload_part"
        what = f"PART {parameters['PartNumber']}" if is_part else operation.partition("_")[0]
        with self._lock:
            self.sent.append(what)
            number = len(self.sent)
            self._on_their_way += is_part
            self.most_parts = max(self.most_parts, self._on_their_way)

        def request() -> Any:
            if number in self._refused:
                raise _failure(500, "InternalError")
            response = self._carry_out(operation, key, parameters)
            if number in self._lost:
                raise _failure(500, "InternalError")
            return response

        try:
            return self.timed(what, key, request)
        finally:
            with self._lock:
                self._on_their_way -= is_part

    def timed(self, what: str, key: str, request: Callable[[], Any]) -> Any:
        """Carry out a request, in the time of the bucket if it has one."""
        if isinstance(self.inner, DepthBucket):
            return self.inner.send(what, key, request)
        return request()

    def error(self, error: Exception, key: str, *, write: bool) -> BlockstoreError:
        return classify(error, key, "bucket", write=write)

    def place(self, key: str) -> str:
        return f"s3://bucket/{key}"

    def _carry_out(self, operation: str, key: str, parameters: Any) -> Any:
        with self._lock:
            if operation == "create_multipart_upload":
                upload = f"upload-{len(self.sent)}"
                self.open[upload] = {}
                return {"UploadId": upload}
            upload = parameters["UploadId"]
            if upload not in self.open:
                raise _failure(404, "NoSuchUpload")
            parts = self.open[upload]
            if operation == "upload_part":
                parts[parameters["PartNumber"]] = parameters["Body"]
                return {"ETag": _etag(parameters["Body"])}
            del self.open[upload]
            if operation == "abort_multipart_upload":
                return {}
        named = parameters["MultipartUpload"]["Parts"]
        assert [one["PartNumber"] for one in named] == sorted(parts)
        assert [one["ETag"] for one in named] == [_etag(parts[number]) for number in sorted(parts)]
        store = self.inner.inner if isinstance(self.inner, DepthBucket) else self.inner
        store.put(key, b"".join(parts[number] for number in sorted(parts)))
        digests = b"".join(hashlib.md5(parts[number]).digest() for number in sorted(parts))
        self._etags[key] = f"{hashlib.md5(digests).hexdigest()}-{len(parts)}"
        return {}


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


def _failure(status: int, code: str) -> ClientError:
    return ClientError(
        {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]
        "request",
    )
