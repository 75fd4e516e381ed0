"""An answer's body as a file that is read once, front to back."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any


class Body(io.RawIOBase):
    """The pieces, in bounded memory; errors are those of the pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._held = memoryview(piece)
        size = min(len(view), len(self._held))
        view[:size] = self._held[:size]
        self._held = self._held[size:]
        return size
