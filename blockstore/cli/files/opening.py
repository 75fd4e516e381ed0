"""Files as streams of bytes, compressed as their names say; those that are read report how far they
were read."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import BinaryIO

import pyarrow as pa

from blockstore.errors import Invalid

Advance = Callable[[float], None]

_CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class _Counted(io.FileIO):
    """A file that reports each read, in compressed bytes."""

    def __init__(self, path: str, advance: Advance) -> None:
        super().__init__(path)
        self._advance = advance

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(-1 if size is None else size) or b""
        self._advance(len(data))
        return data


def pack_of(path: str) -> str | None:
    """Return the compression that the file's name shows."""
    return _CODECS.get(PurePath(path).suffix.lower())


@contextmanager
def opened(path: str, advance: Advance = lambda _: None) -> Iterator[pa.NativeFile]:
    """Open the file's content, decompressed by its name."""
    codec = pack_of(path)
    with pa.PythonFile(_Counted(path, advance), mode="r") as packed:
        if codec is None:
            yield packed
            return
        with pa.CompressedInputStream(packed, codec) as stream:
            yield stream


@contextmanager
def opened_text(path: str, advance: Advance = lambda _: None) -> Iterator[pa.NativeFile]:
    """Open a text's content as UTF-8. A text that begins with the byte order mark of UTF-16 is
    converted; reading one that is not UTF-16 raises UnicodeDecodeError."""
    with opened(path) as stream:
        wide = stream.read(2) in _WIDE
    with opened(path, advance) as stream:
        if not wide:
            yield stream
            return
        with pa.transcoding_input_stream(stream, "utf-16", "utf-8") as text:
            yield text


@contextmanager
def packing(out: BinaryIO, path: str, *, parquet: bool = False) -> Iterator[BinaryIO]:
    """A stream whose bytes go to ``out``, compressed by the name ``path``. Raises Invalid for a
    ``parquet`` file with such a name."""
    codec = pack_of(path)
    if codec is None:
        yield out
        return
    if parquet:
        raise Invalid(
            f"{path} has the name of a compressed file, and Parquet is compressed inside: leave "
            f"{PurePath(path).suffix} out"
        )
    with (
        pa.PythonFile(out, mode="w") as packed,
        pa.CompressedOutputStream(packed, codec) as stream,
    ):
        yield stream
