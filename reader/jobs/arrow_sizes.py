"""How much memory the batches of an Arrow stream take, known before one of them is decompressed.

The problem: a compressed batch of a few kilobytes may become gigabytes, in the gateway's process.
Arrow decompresses a whole batch at once, and has no limit.

Rule: each compressed buffer begins with its size as it was (Arrow's IPC format), and Arrow
allocates just that. The sizes are read, and the batch is refused, before Arrow sees it.
Dictionaries are held with it: their sizes count together, until another takes the place of one.
What is not compressed is mapped, and Arrow takes no memory to read it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from blockstore.errors import Invalid

MOST_BYTES = 256 << 20
"""So many bytes a compressed batch may become."""
_OLD_KEY = b"ARROW:experimental_compression"
"""By this Arrow 0.17 named the compression of a batch, whose header does not say it."""
_AS_IT_IS = -1
"""The size that says that a buffer is not compressed, although its batch is."""
_DICTIONARY, _BATCH = 2, 3
_HEADER_TYPE, _HEADER = 1, 2
_ID, _DATA, _IS_DELTA = 0, 1, 2
_BUFFERS, _COMPRESSION = 2, 3


def check_sizes(file: pa.NativeFile, most: int = MOST_BYTES) -> None:
    """Raise Invalid for a stream that has a batch which becomes larger than ``most`` bytes, with
    the dictionaries before it. What is damaged in another way is left to the one who reads it."""
    dictionaries: dict[int, int] = {}
    for place, message in enumerate(_messages(file)):
        try:
            size = _expanded(message.metadata, message.body, dictionaries)
        except (struct.error, ValueError, OverflowError):
            raise Invalid(
                f"the rows are not an Arrow stream, or it is damaged (message {place} has no sizes)"
            ) from None
        if size > most:
            raise Invalid(
                f"a batch of the Arrow stream has {size:,} bytes once it is decompressed, and at "
                f"most {most:,} are read at once: send smaller batches, or do not compress them"
            )


def _messages(file: pa.NativeFile) -> Iterator[Any]:
    try:
        reader = pa.ipc.MessageReader.open_stream(file)
        while True:
            yield reader.read_next_message()
    except (StopIteration, pa.ArrowException, OSError):
        return


def _expanded(metadata: pa.Buffer, body: pa.Buffer | None, dictionaries: dict[int, int]) -> int:
    """The bytes of a message's batch once it is decompressed, and of the ``dictionaries`` by then,
    by their ids; 0 for other messages."""
    data = memoryview(metadata)
    if _OLD_KEY in bytes(data):
        raise Invalid(
            "the Arrow stream is compressed as Arrow 0.17 did it: write it with a newer release"
        )
    message = _Table(data, _at(data, 0))
    kind = message.field(_HEADER_TYPE)
    header = message.field(_HEADER)
    if not kind or not header or data[kind] not in (_BATCH, _DICTIONARY) or body is None:
        return 0
    table = _Table(data, _at(data, header))
    if data[kind] == _BATCH:
        return _decompressed(data, table, body) + sum(dictionaries.values())
    inner, where, delta = (table.field(number) for number in (_DATA, _ID, _IS_DELTA))
    (name,) = struct.unpack_from("<q", data, where) if where else (0,)
    size = _decompressed(data, _Table(data, _at(data, inner)), body) if inner else 0
    adds = bool(delta and data[delta])
    dictionaries[name] = size + (dictionaries.get(name, 0) if adds else 0)
    return sum(dictionaries.values())


def _decompressed(data: memoryview, batch: _Table, body: pa.Buffer) -> int:
    """The bytes of a batch once it is decompressed; 0 for one that is not compressed."""
    buffers = batch.field(_BUFFERS)
    if not batch.field(_COMPRESSION) or not buffers:
        return 0
    start = _at(data, buffers)
    (count,) = struct.unpack_from("<I", data, start)
    held = memoryview(body)
    total = 0
    for place in range(count):
        offset, length = struct.unpack_from("<qq", data, start + 4 + 16 * place)
        if length:
            (size,) = struct.unpack_from("<q", held, offset)
            if size < _AS_IT_IS or offset < 0 or length < 0:
                raise ValueError("a size below nothing")
            total += length if size == _AS_IT_IS else size
    return total


def _at(data: memoryview, position: int) -> int:
    """Where the offset at a position leads, in a flatbuffer."""
    (offset,) = struct.unpack_from("<I", data, position)
    return position + int(offset)


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, data: memoryview, position: int) -> None:
        self._data = data
        self._position = position
        (back,) = struct.unpack_from("<i", data, position)
        self._fields = position - back
        if self._fields < 0:
            raise ValueError("a table before the message")
        (self._size,) = struct.unpack_from("<H", data, self._fields)

    def field(self, number: int) -> int:
        """Where a field is; 0 if it is left out."""
        entry = 4 + 2 * number
        if entry + 2 > self._size:
            return 0
        (offset,) = struct.unpack_from("<H", self._data, self._fields + entry)
        return self._position + offset if offset else 0
