"""An object of any size through obstore in bounded memory: gathered in a temporary file, sent at
``close``.

Rules:
- Nothing is sent before ``close``, so nothing is visible before it, and an abandoned writer leaves
  nothing behind.
- Up to ``SMALL_BYTES`` stay in memory and are one PUT; more go to an unnamed file in the machine's
  temporary folder, and from there as a multipart upload. obstore's own streaming writer loses the
  bytes of a failed request; with the file, ``close()`` can send all of them again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO

from blockstore.errors import NoSpace

PART_BYTES = 8 * 1024 * 1024
SMALL_BYTES = 16 * 1024 * 1024


class CloudWriter:
    """Writes the object at ``url``, by ``put`` if it is small, else by ``put_parts``."""

    def __init__(
        self, url: str, put: Callable[[bytes], object], put_parts: Callable[[IO[bytes]], None]
    ) -> None:
        self._url = url
        self._put = put
        self._put_parts = put_parts
        self._size = 0
        self._done = False
        self._file = tempfile.SpooledTemporaryFile(max_size=SMALL_BYTES, mode="w+b")  # noqa: SIM115

    def write(self, data: bytes | memoryview, /) -> int:
        assert not self._done, "write after close or abort"
        view = memoryview(data).cast("B")
        with self._gathering():
            self._file.write(view)
        self._size += view.nbytes
        return view.nbytes

    def close(self) -> None:
        if self._done:
            return
        with self._gathering():
            self._file.seek(0)
        if self._size <= SMALL_BYTES:
            self._put(self._file.read())
        else:
            self._put_parts(self._file)
        self._done = True
        self._file.close()

    def abort(self) -> None:
        self._done = True
        # Closing writes what is buffered, which a full disk refuses.
        with suppress(OSError):
            self._file.close()

    @contextmanager
    def _gathering(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise NoSpace(
                f"{self._url} could not be gathered in {tempfile.gettempdir()} "
                f"({error.strerror}): free space there, or set TMPDIR to a larger folder"
            ) from error
