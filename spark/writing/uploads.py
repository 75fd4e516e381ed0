"""Uploads beside encoding: a bucket whose new objects are sent by a thread of their own.

While one chunk is on its way, the next is sorted and encoded. Rules:
- The bytes that wait are bounded; a writer that is faster than the store waits for it.
- Objects go up one after another, in the order in which they were begun: a task's memory and
  connections stay what they are without this.
- ``settle`` returns once every object is whole in the bucket, or raises what the first failure was.
  Before that nobody may name an object. After a failure nothing more is sent.
- Only ``put`` and ``writer`` go beside; everything else is asked at once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from blockstore.bucket.api import Bucket, ObjectWriter
from blockstore.bucket.wrapper import Wrapper

WAITING_BYTES = 32 * 2**20


class UploadsBeside(Wrapper):
    """One task's uploads. End it with ``settle``, or with ``drop``."""

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
        """The objects that were begun and are not whole in the bucket."""

    def put(self, key: str, data: bytes) -> str:
        """Send a whole object; its ETag is not known yet."""
        self._later(len(data), lambda: self.inner.put(key, data))
        return ""

    def writer(self, key: str) -> ObjectWriter:
        inner = self.inner.writer(key)
        self._unsent.append(inner)
        return _Beside(self, inner)

    def settle(self) -> None:
        """Wait until everything is in the bucket. Raises what a put would raise."""
        with self._turn:
            self._turn.wait_for(lambda: not self._steps and not self._busy)
            self._ended = True
            self._turn.notify_all()
        self._join()
        if self._failure is not None:
            raise self._failure

    def drop(self) -> None:
        """Forget what was not sent yet."""
        with self._turn:
            self._steps.clear()
            self._ended = True
            self._turn.notify_all()
        self._join()
        while self._unsent:
            # a multipart upload that nobody ends is kept, unseen, and paid for
            self._unsent.pop().abort()

    def whole(self, inner: ObjectWriter) -> None:
        """Close an object, by the thread that sends."""
        inner.close()
        self._unsent.remove(inner)

    def later(self, size: int, step: Callable[[], object]) -> None:
        """Do a step of an upload after all that were asked for before it.

        Raises what went wrong in one of those.
        """
        self._later(size, step)

    def _later(self, size: int, step: Callable[[], object]) -> None:
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
            except BaseException as error:  # noqa: BLE001 - raised again by whoever waits for the upload
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


class _Beside:
    """An object that is written here and sent there."""

    def __init__(self, uploads: UploadsBeside, inner: ObjectWriter) -> None:
        self._uploads = uploads
        self._inner = inner
        self._aborted = False

    def write(self, data: bytes | memoryview, /) -> int:
        # A copy: the caller may use its buffer again before the piece is sent.
        piece = bytes(data)
        self._uploads.later(len(piece), lambda: self._inner.write(piece))
        return len(piece)

    def close(self) -> None:
        self._uploads.later(0, lambda: self._uploads.whole(self._inner))

    def abort(self) -> None:
        if not self._aborted:
            self._aborted = True
            self._uploads.drop()  # aborts this one too
