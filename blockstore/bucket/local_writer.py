"""A local object written piece by piece: small pieces are gathered, large ones go straight to the
file."""

from __future__ import annotations

from contextlib import suppress

from blockstore.bucket.local_errors import classified_write
from blockstore.bucket.local_tree import Tree

_GATHERED_BYTES = 1 << 18


class LocalWriter:
    """Writes the object at ``path``; it gets its name when closed, and nothing is left of it if it
    is not."""

    def __init__(self, tree: Tree, path: str) -> None:
        self._tree = tree
        self._path = path
        self._file = tree.new_file(path)
        self._pieces: list[bytes | memoryview] = []
        self._gathered = 0
        self._closed = False

    def write(self, data: bytes | memoryview, /) -> int:
        assert not self._closed, "write after close or abort"
        view = memoryview(data)
        size = view.nbytes
        self._gathered += size
        if self._gathered < _GATHERED_BYTES:
            self._pieces.append(bytes(data))
            return size
        self._pieces.append(data if isinstance(data, bytes) else view.cast("B"))
        try:
            self._flush()
        except BaseException:
            # The caller's memory is its own again: keep a copy, so that the same can be sent again.
            self._pieces = [bytes(piece) for piece in self._pieces]
            raise
        return size

    def close(self) -> None:
        if self._closed:
            return
        self._flush()
        self._tree.put(self._file, self._path)
        self._file.close()
        self._closed = True

    def abort(self) -> None:
        self._closed = True
        self._pieces.clear()
        # A file server may tell only now that its disk is full.
        with suppress(OSError):
            self._file.close()

    def _flush(self) -> None:
        with classified_write(self._path):
            if len(self._pieces) > 1:
                small = b"".join(self._pieces[:-1])
                self._file.write(small)
                del self._pieces[:-1]
            if self._pieces:
                self._file.write(self._pieces[0])
        self._pieces.clear()
        self._gathered = 0
