"""The small columns of many leaves as one table, without holding both at once.

Rules:
- Numbers and texts are written to their place as each leaf comes: joined at the end, a million
  blocks would take twice as much memory for a moment.
- Arrow counts the bytes of texts in 32 bits, so a column of very many has several chunks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import pyarrow as pa

from blockstore.index import ulids
from blockstore.index.arrow import integers, numbers, texts
from blockstore.index.rows import FRAME

_MOST = 1 << 30
"""Bytes of texts in one chunk."""


def gathered(frames: Iterable[pa.Table], rows: int, schema: pa.Schema = FRAME) -> pa.Table:
    """These tables, one after the other, as columns of ``FRAME`` or ``CODED``; ``rows`` is how many
    rows they have together."""
    columns = [_column(field, rows) for field in schema]
    for frame in frames:
        for column, field in zip(columns, schema, strict=True):
            for chunk in frame[field.name].chunks:
                column.add(chunk)
    return pa.table([column.done() for column in columns], schema=schema)


class _Column(Protocol):
    def add(self, array: pa.Array) -> None: ...

    def done(self) -> pa.ChunkedArray: ...


def _column(field: pa.Field, rows: int) -> _Column:
    kind = field.type
    if field.name == "ulid":
        return _Ulids(rows)
    if pa.types.is_integer(kind):
        return _Numbers(kind, rows)
    if pa.types.is_dictionary(kind):
        return _Codes(rows)
    return _Texts(rows) if kind == pa.string() else _Others(kind)


class _Numbers:
    def __init__(self, kind: pa.DataType, rows: int) -> None:
        self._kind = kind
        self._values = np.empty(rows, dtype=np.dtype(f"i{kind.bit_width // 8}"))
        self._rows = 0

    def add(self, array: pa.Array) -> None:
        end = self._rows + len(array)
        found = np.frombuffer(array.buffers()[1], dtype=self._values.dtype)
        self._values[self._rows : end] = found[array.offset :][: len(array)]
        self._rows = end

    def done(self) -> pa.ChunkedArray:
        return pa.chunked_array([numbers(self._values[: self._rows], self._kind)])


class _Ulids:
    """Not as other texts: a buffer that grows leaves holes as large as itself behind."""

    def __init__(self, rows: int) -> None:
        self._values = np.empty(rows, dtype=ulids.EMPTY.dtype)
        self._rows = 0

    def add(self, array: pa.Array) -> None:
        end = self._rows + len(array)
        self._values[self._rows : end] = ulids.from_arrow(array)
        self._rows = end

    def done(self) -> pa.ChunkedArray:
        most = max(1, _MOST // self._values.itemsize)
        starts = range(0, self._rows, most)
        chunks = [ulids.to_arrow(self._values[start : start + most]) for start in starts]
        return _chunked(chunks, pa.string())


class _Texts:
    def __init__(self, rows: int) -> None:
        self._ends = np.zeros(rows + 1, dtype=np.int32)
        self._data = bytearray()
        self._first = self._rows = 0
        """The rows of this chunk."""
        self._chunks: list[pa.Array] = []

    def add(self, array: pa.Array) -> None:
        _, offsets, data = array.buffers()
        ends = np.frombuffer(offsets, dtype=np.int32)[array.offset :][: len(array) + 1]
        first, last = int(ends[0]), int(ends[-1])
        if len(self._data) + last - first > _MOST:
            self._end_chunk()
        begin, at = len(self._data), self._rows
        self._rows += len(array)
        self._ends[at + 1 : self._rows + 1] = ends[1:] - np.int32(first) + np.int32(begin)
        if last > first:
            self._data += memoryview(data)[first:last]

    def done(self) -> pa.ChunkedArray:
        self._end_chunk()
        return _chunked(self._chunks, pa.string())

    def _end_chunk(self) -> None:
        if self._rows > self._first:
            ends = self._ends[self._first : self._rows + 1]
            if self._first:
                ends = ends.copy()
                ends[0] = 0
            held = [None, pa.py_buffer(ends), pa.py_buffer(self._data)]
            count = self._rows - self._first
            self._chunks.append(pa.Array.from_buffers(pa.string(), count, held))
            self._data, self._first = bytearray(), self._rows


class _Codes:
    """Texts of which few differ: of each only its number is kept."""

    def __init__(self, rows: int) -> None:
        self._number: dict[str, int] = {}
        self._codes = _Numbers(pa.int32(), rows)

    def add(self, array: pa.Array) -> None:
        encoded = array.dictionary_encode()
        known = self._number
        texts = encoded.dictionary.to_pylist()
        codes = np.array([known.setdefault(text, len(known)) for text in texts], dtype=np.int32)
        self._codes.add(numbers(codes[integers(encoded.indices)], pa.int32()))

    def done(self) -> pa.ChunkedArray:
        (codes,) = self._codes.done().chunks
        return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, texts(list(self._number)))])


class _Others:
    """Columns that take little: copied, since a slice would keep all columns of its leaf."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._arrays: list[pa.Array] = []

    def add(self, array: pa.Array) -> None:
        self._arrays.append(pa.concat_arrays([pa.nulls(0, self._kind), array]))

    def done(self) -> pa.ChunkedArray:
        return _chunked(self._arrays, self._kind).combine_chunks()


def _chunked(arrays: list[pa.Array], kind: pa.DataType) -> pa.ChunkedArray:
    """One after the other; Arrow's own function imports pandas to make a column of none."""
    return pa.chunked_array(arrays or [pa.nulls(0, kind)], kind)
