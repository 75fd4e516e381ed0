"""A leaf as bytes: canonical, so that equal content has equal bytes and one SHA-256.

Rules (docs/format.md, "Leaves"):
- The canonical bytes are a line that names the kind, the number of items as 8 bytes, and then each
  part of each column with its length before it, as 8 bytes. The parts of columns are those over
  which a checkpoint's digest is made (``content.py``). Numbers are little-endian.
- A leaf of sources has one part: the ULIDs end to end.
- The object holds the length of the canonical bytes, as 8 bytes, and them compressed by zstd. The
  hash is over the canonical bytes: how they are compressed may differ.
- Whatever bytes there are, decoding returns the content of that hash, or raises Corrupt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.errors import Corrupt
from blockstore.index.content import parts_of
from blockstore.index.rows import BULK, FRAME
from blockstore.index.ulids import EMPTY, UlidArray

COLUMNS = pa.schema([*FRAME, *BULK])
"""The columns of a leaf of blocks."""

_BLOCKS = b"blockstore leaf of blocks 1\n"
_SOURCES = b"blockstore leaf of sources 1\n"
_LENGTH = 8
_MOST = 1 << 31
_MOST_FOLD = 1 << 16
"""Compressed bytes never hold more than so many times their number."""


def encode_blocks(rows: pa.Table) -> bytes:
    """The canonical bytes of a leaf of these rows, which have the columns ``COLUMNS``."""
    parts: list[bytes] = []
    for field in COLUMNS:
        for part in parts_of(rows[field.name].combine_chunks()):
            parts += [_length(part.nbytes), bytes(part)]
    return b"".join([_BLOCKS, _length(len(rows)), *parts])


def encode_sources(sources: UlidArray) -> bytes:
    """The canonical bytes of a leaf of these sources."""
    data = np.ascontiguousarray(sources).tobytes()
    return b"".join([_SOURCES, _length(len(sources)), _length(len(data)), data])


def sha256_of(canonical: bytes) -> str:
    """The hash by which a leaf is named."""
    return hashlib.sha256(canonical).hexdigest()


def packed(canonical: bytes) -> bytes:
    """The object of a leaf."""
    held = pa.compress(canonical, codec="zstd", asbytes=True)
    assert isinstance(held, bytes), "bytes were asked for"
    return _length(len(canonical)) + held


def unpacked(data: bytes, sha256: str, name: str) -> bytes:
    """The canonical bytes in an object. Raises Corrupt unless they are those of this hash."""
    size = int.from_bytes(data[:_LENGTH], "little")
    if not 0 < size <= min(_MOST, _MOST_FOLD * len(data)):
        raise Corrupt(f"{name} holds {len(data)} bytes that are no leaf")
    try:
        found = pa.decompress(data[_LENGTH:], decompressed_size=size, codec="zstd", asbytes=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise Corrupt(f"{name} cannot be read ({type(error).__name__}: {error})") from None
    if sha256_of(found) != sha256:
        raise Corrupt(f"{name} holds {len(data)} bytes that do not match the SHA-256 in its name")
    return bytes(found)


def decode_blocks(canonical: bytes, name: str) -> pa.Table:
    """The rows of a leaf of blocks."""
    return decode_columns(canonical, name, COLUMNS.names)


def decode_columns(canonical: bytes, name: str, names: Collection[str]) -> pa.Table:
    """Some of their columns, in the order of ``COLUMNS``; the others are passed over."""
    reader = _Reader(canonical, _BLOCKS, name)
    found = {}
    try:
        for field in COLUMNS:
            if field.name in names:
                found[field] = _column(reader, field.type, reader.items)
            else:
                for _ in range(_parts(field.type)):
                    reader.part()
        reader.end()
        table = pa.Table.from_arrays(list(found.values()), schema=pa.schema(list(found)))
        table.validate(full=True)
    except (pa.ArrowException, ValueError) as error:
        raise Corrupt(f"{name} is no leaf of blocks ({error})") from None
    return table


def decode_sources(canonical: bytes, name: str) -> UlidArray:
    """The sources of a leaf."""
    reader = _Reader(canonical, _SOURCES, name)
    data = reader.part()
    reader.end()
    if len(data) != EMPTY.itemsize * reader.items:
        reader.fail()
    return np.frombuffer(data, dtype=EMPTY.dtype)


class _Reader:
    """Goes through the parts of canonical bytes."""

    def __init__(self, data: bytes, kind: bytes, name: str) -> None:
        self._data = memoryview(data)
        self._name = name
        self._at = len(kind)
        if data[: len(kind)] != kind:
            raise Corrupt(f"{name} is no {kind.decode().strip()}")
        self.items = self._number()

    def part(self) -> memoryview:
        size = self._number()
        found = self._data[self._at : self._at + size]
        self._at += size
        if len(found) != size:
            self.fail()
        return found

    def integers(self) -> npt.NDArray[np.int64]:
        return np.frombuffer(self.part(), dtype="<i8")

    def end(self) -> None:
        if self._at != len(self._data):
            self.fail()

    def fail(self) -> None:
        raise Corrupt(f"{self._name} is cut short, or its parts do not fit one another")

    def _number(self) -> int:
        found = self._data[self._at : self._at + _LENGTH]
        self._at += _LENGTH
        if len(found) != _LENGTH:
            self.fail()
        return int.from_bytes(found, "little")


def _column(reader: _Reader, kind: pa.DataType, items: int) -> pa.Array:
    """The column of which the next parts are."""
    if pa.types.is_list(kind):
        counts = reader.integers()
        _expect(counts, items)
        valid = counts >= 0
        values = _column(reader, kind.value_type, int(counts[valid].sum()))
        bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
        nulls = int(items - valid.sum())
        buffers: Sequence[pa.Buffer | None] = [
            bits if nulls else None,
            _offsets(np.where(valid, counts, 0)),
        ]
        return pa.Array.from_buffers(kind, items, buffers, nulls, children=[values])
    if pa.types.is_boolean(kind):
        flags = np.frombuffer(reader.part(), dtype=np.uint8)
        _expect(flags, items)
        bits = pa.py_buffer(np.packbits(flags.astype(bool), bitorder="little"))
        return pa.Array.from_buffers(kind, items, [None, bits])
    if pa.types.is_integer(kind):
        found = reader.integers()
        _expect(found, items)
        if kind == pa.int64():
            return pa.Array.from_buffers(kind, items, [None, pa.py_buffer(found)])
        held = found.astype(np.dtype(f"<i{kind.bit_width // 8}"))
        if (held != found).any():
            raise ValueError("a number is too large for its column")
        return pa.Array.from_buffers(kind, items, [None, pa.py_buffer(held)])
    lengths = reader.integers()
    _expect(lengths, items)
    data = reader.part()
    if int(lengths.sum()) != len(data) or (lengths < 0).any():
        raise ValueError("lengths do not fit their texts")
    return pa.Array.from_buffers(kind, items, [None, _offsets(lengths), pa.py_buffer(data)])


def _parts(kind: pa.DataType) -> int:
    """How many parts a column has."""
    if pa.types.is_list(kind):
        return 1 + _parts(kind.value_type)
    return 1 if pa.types.is_integer(kind) or pa.types.is_boolean(kind) else 2


def _expect(values: npt.NDArray[np.generic], items: int) -> None:
    if len(values) != items:
        raise ValueError(f"{len(values)} values in a column of {items}")


def _offsets(lengths: npt.NDArray[np.int64]) -> pa.Buffer:
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    if ends[-1] >= _MOST:
        raise ValueError("a column is too long")
    return pa.py_buffer(ends.astype(np.int32))


def _length(size: int) -> bytes:
    return size.to_bytes(_LENGTH, "little")
