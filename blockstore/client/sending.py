"""A local file as the body of a request, which can be sent again."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import BinaryIO

_PIECE = 1 << 20


def opener(
    file: str | os.PathLike[str] | bytes | BinaryIO,
) -> Callable[[], AbstractContextManager[BinaryIO]]:
    """A function that opens the file at its start; a caller's own file stays open."""
    if isinstance(file, bytes):
        return lambda: io.BytesIO(file)
    if isinstance(file, str | os.PathLike):
        return lambda: open(file, "rb")
    start = file.tell() if file.seekable() else 0

    def again() -> AbstractContextManager[BinaryIO]:
        if file.seekable():
            file.seek(start)
        return nullcontext(file)

    return again


def sent(
    opened: Callable[[], AbstractContextManager[BinaryIO]], progress: Callable[[int], None] | None
) -> Iterator[bytes]:
    """Yield a file's bytes; ``progress`` is called with the number of bytes so far."""
    done = 0
    with opened() as file:
        while piece := file.read(_PIECE):
            yield piece
            done += len(piece)
            if progress is not None:
                progress(done)
