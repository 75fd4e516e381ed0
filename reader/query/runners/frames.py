"""The frames between the gateway and a worker process: kind, length, bytes.

Frames to the worker are trusted and contain pickled values. Frames from the worker, which runs SQL
of strangers, contain only JSON and Arrow batches: data, never code. A frame has at most 4 GiB - 1.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import BinaryIO

_HEAD = struct.Struct("<BI")


class Down(IntEnum):
    """Frames from the gateway."""

    RUN = 1
    CANCEL = 2


class Up(IntEnum):
    """Frames from the worker."""

    READY = 1
    SCHEMA = 2
    BATCH = 3
    END = 4
    ERROR = 5


def write_frame(out: BinaryIO, kind: int, payload: bytes | memoryview = b"") -> None:
    """Write one frame. Blocks until the other side reads, which keeps memory constant."""
    out.write(_HEAD.pack(kind, len(payload)))
    if payload:
        out.write(payload)
    out.flush()


def read_frame(source: BinaryIO) -> tuple[int, bytes] | None:
    """The next frame. None at the end of the pipe, also inside a frame: the other process is
    gone."""
    head = source.read(_HEAD.size)
    if head is None or len(head) < _HEAD.size:
        return None
    kind, size = _HEAD.unpack(head)
    payload = source.read(size) if size else b""
    return None if len(payload) < size else (kind, payload)
