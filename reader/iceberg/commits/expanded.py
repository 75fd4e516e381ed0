"""How large an Avro file is once it is decompressed, before anything decodes it.

Avro's readers decompress a block whatever comes out: a file of 30 MB could fill the memory.
"""

from __future__ import annotations

import io
import zlib

from blockstore.errors import Invalid

_MOST = 256 << 20
"""The most that a manifest may be, decompressed."""
_SYNC = 16


def check_expanded(file: io.BytesIO, codec: str, key: str) -> None:
    """Raise Invalid for a file whose blocks are too large, or compressed in a way that is not
    known; ``file`` is at its first block, and stays there."""
    start, left = file.tell(), _MOST
    while len(file.getbuffer()) > file.tell():
        _number(file)  # of rows
        data = file.read(_number(file))
        file.seek(_SYNC, io.SEEK_CUR)
        match codec:
            case "null":
                left -= len(data)
            case "deflate":
                left -= len(zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, left + 1))
            case _:
                raise Invalid(f"{key} is compressed by {codec}: write manifests with gzip")
        if left < 0:
            raise Invalid(
                f"{key} is larger than {_MOST:,} bytes once it is decompressed: commit fewer files "
                "at once"
            )
    file.seek(start)


def _number(file: io.BytesIO) -> int:
    """Avro's number: seven bits a byte, the lowest first, with the sign in the lowest bit."""
    value = shift = 0
    while True:
        byte = file.read(1)
        if not byte or shift > 63:
            raise Invalid("a manifest ends within a number")
        value |= (byte[0] & 0x7F) << shift
        shift += 7
        if not byte[0] & 0x80:
            return max(0, (value >> 1) ^ -(value & 1))
