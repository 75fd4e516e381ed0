"""A local file, or rows of Arrow, as the body of a request, which can be sent again."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from blockstore.errors import Invalid

_PIECE = 1 << 20
_ROWS = 65_536


class ArrowStream(Protocol):
    """Rows of Arrow: a table or a reader of pyarrow, a DataFrame of pandas or polars, a result of
    DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None, /) -> object: ...


def opener(
    file: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO,
) -> Callable[[], AbstractContextManager[BinaryIO]]:
    """A function that opens the file at its start; a caller's own file stays open. Raises Invalid
    for what is no file."""
    if isinstance(file, bytes | bytearray | memoryview):
        return lambda: io.BytesIO(file)
    if isinstance(file, str | os.PathLike):
        return lambda: open(file, "rb")
    if isinstance(file, io.TextIOBase) or not hasattr(file, "read"):
        raise _no_file(file)
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
            if isinstance(piece, str):
                raise _no_file(file)
            yield piece
            done += len(piece)
            if progress is not None:
                progress(done)


def _no_file(file: object) -> Invalid:
    found = "open as text" if hasattr(file, "read") else type(file).__name__
    return Invalid(
        f"the file is {found}, expected a path, the bytes, or a file that is open with mode 'rb'"
    )


def stream_of(rows: ArrowStream, progress: Callable[[int], None] | None) -> Iterator[bytes]:
    """Yield rows as the bytes of an Arrow stream, in bounded memory."""
    reader, sink, done = pa.RecordBatchReader.from_stream(rows), _Sink(), 0
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), reader.schema) as stream:
        for batch in reader:
            for start in range(0, batch.num_rows, _ROWS):
                stream.write_batch(batch.slice(start, _ROWS))
                piece = sink.taken()
                yield piece
                done += len(piece)
                if progress is not None:
                    progress(done)
    yield sink.taken()


class _Sink:
    """A file that holds what was written since it was last taken."""

    closed = False

    def __init__(self) -> None:
        self._held = bytearray()
        self._size = 0

    def write(self, data: Any) -> int:
        piece = memoryview(data).cast("B")
        self._held += piece
        self._size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        return None

    def writable(self) -> bool:
        return True

    def taken(self) -> bytes:
        held, self._held = bytes(self._held), bytearray()
        return held
