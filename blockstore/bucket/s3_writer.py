"""An S3 object of any size in bounded memory: one PUT while it is small, else a multipart upload.

Rules:
- Parts have ``PART_BYTES``, except the last; at most one part and the data of one ``write`` are
  held in memory.
- The client's package is imported at the first multipart request: a small object may be sent by
  another client (``s3.py``).
- Nothing is visible before the upload is completed; the parts of an aborted upload are freed.
- The bytes of a failed request are kept, so that ``write(b"")`` or ``close()`` sends them again. A
  completion whose response was lost is sent again; if the store has forgotten the upload by then,
  the object's own ETag shows whether it was ours.
"""

from __future__ import annotations

import hashlib
from typing import Any

from blockstore.bucket.s3_client import S3Requests
from blockstore.errors import BlockstoreError, Invalid, ObjectMissing, Unanswered

PART_BYTES = 16 * 1024 * 1024
_MAX_PARTS = 10_000


class S3Writer:
    """Writes the object ``key`` of ``bucket``."""

    def __init__(self, bucket: S3Requests, key: str) -> None:
        self._bucket = bucket
        self._key = key
        self._buffer = bytearray()
        self._upload: str | None = None
        self._etags: list[str] = []
        self._done = False

    def write(self, data: bytes | memoryview, /) -> int:
        assert not self._done, "write after close or abort"
        view = memoryview(data).cast("B")
        self._buffer += view
        while len(self._buffer) >= PART_BYTES:
            self._send_part(PART_BYTES)
        return view.nbytes

    def close(self) -> None:
        if self._done:
            return
        if self._upload is None:
            self._bucket.put(self._key, bytes(self._buffer))
        else:
            if self._buffer:
                self._send_part(len(self._buffer))
            self._complete(self._upload)
        self._buffer.clear()
        self._done = True

    def abort(self) -> None:
        self._buffer.clear()
        upload, self._upload = self._upload, None
        if upload is None or self._done:
            self._done = True
            return
        self._done = True
        from blockstore.bucket.s3_errors import FAILURES

        try:
            self._bucket.send("abort_multipart_upload", self._key, UploadId=upload)
        except FAILURES:
            # A lifecycle rule for incomplete uploads frees what the store still holds.
            return

    def _send_part(self, size: int) -> None:
        if self._upload is None:
            self._upload = str(self._request("create_multipart_upload")["UploadId"])
        number = len(self._etags) + 1
        if number > _MAX_PARTS:
            raise Invalid(
                f"the object {self._bucket.place(self._key)} has more than {_MAX_PARTS} parts of "
                f"{PART_BYTES} bytes, which S3 refuses: write several smaller objects"
            )
        with memoryview(self._buffer) as view:
            body = bytes(view[:size])
        response = self._request("upload_part", UploadId=self._upload, PartNumber=number, Body=body)
        self._etags.append(response["ETag"])
        del self._buffer[:size]

    def _complete(self, upload: str) -> None:
        from blockstore.bucket.s3_errors import FAILURES, NO_SUCH_UPLOAD, status_and_code

        parts = [
            {"PartNumber": number, "ETag": etag} for number, etag in enumerate(self._etags, start=1)
        ]
        try:
            self._bucket.send(
                "complete_multipart_upload",
                self._key,
                UploadId=upload,
                MultipartUpload={"Parts": parts},
            )
        except FAILURES as error:
            if status_and_code(error)[1] == NO_SUCH_UPLOAD:
                self._check_completed()
                return
            raise self._bucket.error(error, self._key, write=True) from error

    def _check_completed(self) -> None:
        """Raise Unanswered unless an earlier request completed the upload that the store forgot."""
        try:
            found = self._bucket.head(self._key).etag
        except ObjectMissing:
            found = None
        if found != _multipart_etag(self._etags):
            raise Unanswered(
                f"the upload of {self._bucket.place(self._key)} is gone, and the object there is "
                "missing or another writer's: write it again"
            )

    def _request(self, operation: str, **parameters: Any) -> Any:
        from blockstore.bucket.s3_errors import FAILURES

        try:
            return self._bucket.send(operation, self._key, **parameters)
        except FAILURES as error:
            typed: BlockstoreError = self._bucket.error(error, self._key, write=True)
            raise typed from error


def _multipart_etag(etags: list[str]) -> str | None:
    """Return S3's ETag of an object of these parts: the MD5 of their MD5s, and their number."""
    try:
        digests = b"".join(bytes.fromhex(etag.strip('"')) for etag in etags)
    except ValueError:
        return None
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(etags)}"
