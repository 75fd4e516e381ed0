"""What travels between the gateway and the process that runs a query: length, kind, bytes.

Downwards (trusted) pickled values; upwards, from the process that runs what strangers wrote,
nothing but JSON and Arrow batches, which are data and never code. A frame has at most 4 GiB - 1.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import BinaryIO

_HEAD = struct.Struct("<BI")


class Down(IntEnum):
    """What the gateway says."""

    RUN = 1
    CANCEL = 2


class Up(IntEnum):
    """What the process says."""

    READY = 1
    SCHEMA = 2
    BATCH = 3
    END = 4
    ERROR = 5


def write_frame(out: BinaryIO, kind: int, payload: bytes | memoryview = b"") -> None:
    """Write one frame whole; blocks while nobody reads, which is what keeps memory constant."""
    out.write(_HEAD.pack(kind, len(payload)))
    if payload:
        out.write(payload)
    out.flush()


def read_frame(source: BinaryIO) -> tuple[int, bytes] | None:
    """The next frame;

    None at the end of the pipe, also in the middle of a frame: the other process is gone.
    """
    head = source.read(_HEAD.size)
    if head is None or len(head) < _HEAD.size:
        return None
    kind, size = _HEAD.unpack(head)
    payload = source.read(size) if size else b""
    return None if len(payload) < size else (kind, payload)
