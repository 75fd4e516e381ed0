"""An S3 object of any size in bounded memory: one PUT while it is small, else a multipart upload
whose parts are sent while the next one is written.

Rules:
- An object of fewer than ``SMALL_BYTES`` is one PUT. Parts have ``PART_BYTES``, except the last.
- At most ``IN_FLIGHT`` parts are sent at the same time, by spare threads (``traffic/spare.py``).
  Twice ``SMALL_BYTES`` and the data of one ``write`` are the most that is held. A part for which
  there is no thread is sent by the caller. A thread that sends a part waits for nothing else, so
  threads cannot wait for each other.
- The client's package is imported at the first multipart request: a small object may be sent by
  another client (``s3.py``).
- Nothing is visible before the upload is completed, which waits for every part. An aborted upload
  first waits for the parts in flight, then frees all of them: a part that arrived later would stay.
- The bytes of a failed request are kept. The failure of a part is raised by the next ``write`` or
  ``close``, and the one after that (``write(b"")`` or ``close()``) sends the part again, with the
  same number and in its own thread, so that its caller sees each failed attempt.
- A completion whose response was lost is sent again; if the store has forgotten the upload by then,
  the object's own ETag shows whether it was ours.
- In a forked child the threads of the parent do not exist: it sends their parts again.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from blockstore.bucket.s3_client import S3Requests
from blockstore.errors import BlockstoreError, Invalid, ObjectMissing, Unanswered

PART_BYTES = 8 * 1024 * 1024
SMALL_BYTES = 16 * 1024 * 1024
IN_FLIGHT = 3
"""With the part that is gathered, as much memory as the PUT of an object that is just small enough
takes: ``SMALL_BYTES`` and a copy of it."""

_MAX_PARTS = 10_000


class Beside(Protocol):
    """Threads that send parts while the caller goes on: ``Spare``."""

    def run(self, call: Callable[[], None]) -> bool:
        """Carry out ``call`` in another thread now, or return False."""
        ...

    def wait(self, event: threading.Event) -> None:
        """Sleep until another thread has set the event."""
        ...


class S3Writer:
    """Writes the object ``key`` of ``bucket``; without ``beside`` one part after the other."""

    def __init__(self, bucket: S3Requests, key: str, beside: Beside | None = None) -> None:
        self._bucket = bucket
        self._key = key
        self._beside = beside
        self._buffer = bytearray()
        self._upload: str | None = None
        self._parts: list[_Part] = []
        self._in_flight: deque[_Part] = deque()
        self._failed: list[_Part] = []
        """Parts whose failure was raised."""
        self._done = False

    def write(self, data: bytes | memoryview, /) -> int:
        assert not self._done, "write after close or abort"
        view = memoryview(data).cast("B")
        self._buffer += view
        self._send_again()
        self._settle(at_most=IN_FLIGHT)
        while len(self._buffer) >= (SMALL_BYTES if self._upload is None else PART_BYTES):
            self._send_part()
        return view.nbytes

    def close(self) -> None:
        if self._done:
            return
        if self._upload is None and len(self._buffer) < SMALL_BYTES:
            self._bucket.put(self._key, bytes(self._buffer))
        else:
            self.write(b"")
            if self._buffer:
                self._send_part()
            self._settle(at_most=0)
            self._complete()
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

        while self._in_flight:
            part = self._in_flight.popleft()
            if part.pid == os.getpid() and self._beside is not None:
                self._beside.wait(part.ended)
        self._parts.clear()
        self._failed.clear()
        try:
            self._bucket.send("abort_multipart_upload", self._key, UploadId=upload)
        except FAILURES:
            # A lifecycle rule for incomplete uploads frees what the store still holds.
            return

    def _begin_upload(self) -> str:
        if self._upload is None:
            self._upload = str(self._request("create_multipart_upload")["UploadId"])
        return self._upload

    def _send_part(self) -> None:
        """Take a part from the buffer and send it, if possible beside the caller."""
        number = len(self._parts) + 1
        if number > _MAX_PARTS:
            raise Invalid(
                f"the object {self._bucket.place(self._key)} has more than {_MAX_PARTS} parts of "
                f"{PART_BYTES} bytes, which S3 refuses: write several smaller objects"
            )
        self._settle(at_most=IN_FLIGHT - 1)
        with memoryview(self._buffer) as view:
            part = _Part(self._begin_upload(), number, bytes(view[:PART_BYTES]))
        del self._buffer[:PART_BYTES]
        self._parts.append(part)
        self._in_flight.append(part)
        if self._beside is None or not self._beside.run(lambda: self._carry(part)):
            self._carry(part)
            self._settle(at_most=IN_FLIGHT)

    def _send_again(self) -> None:
        """Send the parts whose failure was raised, in the caller's thread."""
        while self._failed:
            part = self._failed[0]
            self._carry(part)
            if part.error is not None:
                raise part.error
            self._failed.pop(0)

    def _settle(self, *, at_most: int) -> None:
        """Wait until at most so many parts are in flight. Raises the first failure of a part that
        has ended."""
        while len(self._in_flight) > at_most:
            self._ended(self._in_flight[0])
            self._note_ended()
        self._note_ended()
        if self._failed:
            error = self._failed[0].error
            assert error is not None
            raise error

    def _note_ended(self) -> None:
        """Sort out the parts that have ended: they are complete, or have failed."""
        ended = [part for part in self._in_flight if part.ended.is_set()]
        self._failed += [part for part in ended if part.error is not None]
        for part in ended:
            self._in_flight.remove(part)

    def _ended(self, part: _Part) -> None:
        """Wait for a part in flight."""
        if part.pid != os.getpid():
            part.ended = threading.Event()
            self._carry(part)
        elif self._beside is not None:
            self._beside.wait(part.ended)

    def _carry(self, part: _Part) -> None:
        """Send a part; raises nothing."""
        part.error = None
        try:
            response = self._request(
                "upload_part", UploadId=part.upload, PartNumber=part.number, Body=part.body
            )
            part.etag = response["ETag"]
            part.body = b""
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            part.error = error
        finally:
            part.ended.set()

    def _complete(self) -> None:
        from blockstore.bucket.s3_errors import FAILURES, NO_SUCH_UPLOAD, status_and_code

        parts = [{"PartNumber": part.number, "ETag": part.etag} for part in self._parts]
        try:
            self._bucket.send(
                "complete_multipart_upload",
                self._key,
                UploadId=self._upload,
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
        if found != _multipart_etag([part.etag for part in self._parts]):
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


class _Part:
    """A part on its way; ``etag`` once it is complete, ``error`` if its last attempt failed."""

    def __init__(self, upload: str, number: int, body: bytes) -> None:
        self.upload = upload
        self.number = number
        self.body = body
        self.etag = ""
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self.pid = os.getpid()


def _multipart_etag(etags: list[str]) -> str | None:
    """Return S3's ETag of an object of these parts: the MD5 of their MD5s, and their number."""
    try:
        digests = b"".join(bytes.fromhex(etag.strip('"')) for etag in etags)
    except ValueError:
        return None
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(etags)}"
