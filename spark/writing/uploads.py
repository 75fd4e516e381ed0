"""Uploads in the background: a bucket whose new objects are sent by a thread of their own.

While one chunk is sent, the next is sorted and encoded. Rules:
- The bytes that wait are bounded: a writer that is faster than the store waits for it.
- Objects are sent one after another, in the order in which they were begun. So a task needs no more
  memory and connections than without this. The parts of a large one are sent side by side
  (``s3_writer.py``).
- ``settle`` returns after every object is stored completely, or raises the first failure. Before
  that no object may be named. After a failure nothing more is sent.
- Only ``put`` and ``writer`` run in the background; every other call runs at once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from blockstore.bucket.api import Bucket, ObjectWriter
from blockstore.bucket.wrapper import Wrapper

WAITING_BYTES = 32 * 2**20


class BackgroundUploads(Wrapper):
    """The uploads of one task. End them with ``settle`` or ``drop``."""

    def __init__(self, inner: Bucket, *, waiting_bytes: int = WAITING_BYTES) -> None:
        super().__init__(inner)
        self._limit = waiting_bytes
        self._turn = threading.Condition()
        self._steps: deque[tuple[int, Callable[[], object]]] = deque()
        self._bytes = 0
        self._busy = False
        self._ended = False
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._unsent: list[ObjectWriter] = []
        """The objects that were begun and are not complete."""

    def put(self, key: str, data: bytes) -> str:
        """Send an object; its ETag is not known yet."""
        self.later(len(data), lambda: self.inner.put(key, data))
        return ""

    def writer(self, key: str) -> ObjectWriter:
        inner = self.inner.writer(key)
        self._unsent.append(inner)
        return _BackgroundWriter(self, inner)

    def settle(self) -> None:
        """Wait until every object is stored. Raises the errors of a put."""
        with self._turn:
            self._turn.wait_for(lambda: not self._steps and not self._busy)
            self._ended = True
            self._turn.notify_all()
        self._join()
        if self._failure is not None:
            raise self._failure

    def drop(self) -> None:
        """Discard what was not sent yet."""
        with self._turn:
            self._steps.clear()
            self._ended = True
            self._turn.notify_all()
        self._join()
        while self._unsent:
            # An open multipart upload is stored invisibly, and paid for.
            self._unsent.pop().abort()

    def finish(self, inner: ObjectWriter) -> None:
        """Close an object, in the sending thread."""
        inner.close()
        self._unsent.remove(inner)

    def later(self, size: int, step: Callable[[], object]) -> None:
        """Queue a step of an upload. Raises the failure of an earlier step."""
        with self._turn:
            self._turn.wait_for(
                lambda: (
                    self._failure is not None
                    or self._bytes == 0
                    or self._bytes + size <= self._limit
                )
            )
            if self._failure is not None:
                raise self._failure
            self._steps.append((size, step))
            self._bytes += size
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._send, name="blockstore-upload", daemon=True
                )
                self._thread.start()
            self._turn.notify_all()

    def _send(self) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._steps or self._ended)
                if not self._steps:
                    return
                size, step = self._steps.popleft()
                self._busy = True
            failure: BaseException | None = None
            try:
                step()
            except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
                failure = error
            with self._turn:
                self._busy = False
                self._bytes -= size
                if failure is not None:
                    self._failure = failure
                    self._bytes -= sum(waiting for waiting, _ in self._steps)
                    self._steps.clear()
                self._turn.notify_all()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None


class _BackgroundWriter:
    """Writes an object through the background thread."""

    def __init__(self, uploads: BackgroundUploads, inner: ObjectWriter) -> None:
        self._uploads = uploads
        self._inner = inner
        self._aborted = False

    def write(self, data: bytes | memoryview, /) -> int:
        # A copy: the caller may reuse its buffer before the piece is sent.
        piece = bytes(data)
        self._uploads.later(len(piece), lambda: self._inner.write(piece))
        return len(piece)

    def close(self) -> None:
        self._uploads.later(0, lambda: self._uploads.finish(self._inner))

    def abort(self) -> None:
        if not self._aborted:
            self._aborted = True
            self._uploads.drop()  # aborts this one too
