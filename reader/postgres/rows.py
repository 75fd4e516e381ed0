"""Rows of a result as messages: of a query, or of a COPY in one of its three forms.

Rules:
- A piece has a bounded number of rows, so memory does not grow with the result.
- The rows of a batch become bytes column by column, without a step for each value: a million rows
  are a few hundred calls.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.reader.postgres.binary import binary_of, sized
from blockstore.reader.postgres.text import text_of

_ROWS = 8_192
"""Rows of a piece."""
BINARY_HEAD = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
BINARY_END = b"\xff\xff"
_ODD = r'["\r\n]'

Form = Callable[[pa.RecordBatch], bytes]
"""Makes messages of some rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyForm:
    """How the data of a COPY is written."""

    form: str = "text"
    """``text``, ``csv`` or ``binary``."""
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    escape: str = '"'
    header: bool = False


def pieces(batch: pa.RecordBatch, form: Form) -> Iterator[bytes]:
    """The messages of a batch, piece by piece."""
    for start in range(0, batch.num_rows, _ROWS):
        yield form(batch.slice(start, _ROWS))


def as_rows(formats: Sequence[int], types: Sequence[int], *, iso: bool = False) -> Form:
    """Rows of a query, each column in text (0) or in binary (1), as of the types that the client
    was shown. ``iso``: intervals are written as ISO 8601 has them."""

    def form(batch: pa.RecordBatch) -> bytes:
        values = [
            sized(binary_of(one, oid) if binary else text_of(one, oid, iso=iso).cast(pa.binary()))
            for one, binary, oid in zip(batch.columns, formats, types, strict=True)
        ]
        return _framed(b"D", batch.num_rows, [_count(batch), *values])

    return form


def as_binary_copy() -> Form:
    """Rows of a binary COPY."""

    def form(batch: pa.RecordBatch) -> bytes:
        values = [sized(binary_of(one)) for one in batch.columns]
        return _framed(b"d", batch.num_rows, [_count(batch), *values])

    return form


def as_text_copy(delimiter: str, null: str, *, iso: bool = False) -> Form:
    """Lines of a COPY in text: special characters have a backslash."""

    def form(batch: pa.RecordBatch) -> bytes:
        values = [
            pc.fill_null(_escaped(text_of(one, iso=iso), delimiter), null) for one in batch.columns
        ]
        return _lines(values, batch.num_rows, delimiter)

    return form


def as_csv_copy(copy: CopyForm, *, iso: bool = False) -> Form:
    """Lines of a COPY in CSV: what could be misread is in quotes."""

    def form(batch: pa.RecordBatch) -> bytes:
        values = [
            pc.fill_null(_quoted(text_of(one, iso=iso), copy), copy.null) for one in batch.columns
        ]
        return _lines(values, batch.num_rows, copy.delimiter)

    return form


def csv_head(names: Sequence[str], copy: CopyForm) -> bytes:
    """The line with the names of the columns, which is no message yet."""
    return _lines([_quoted(pa.array([name]), copy) for name in names], 1, copy.delimiter)[5:]


def text_head(names: Sequence[str], delimiter: str) -> bytes:
    """The same in the text form."""
    return _lines([_escaped(pa.array([name]), delimiter) for name in names], 1, delimiter)[5:]


def _count(batch: pa.RecordBatch) -> bytes:
    return struct.pack("!h", batch.num_columns)


def _framed(kind: bytes, rows: int, parts: Sequence[pa.Array | bytes]) -> bytes:
    """A message for each row, of its parts."""
    body = _joined(parts, b"") if any(isinstance(one, pa.Array) for one in parts) else None
    if body is None:
        data = b"".join(one for one in parts if isinstance(one, bytes))
        return (kind + struct.pack("!i", len(data) + 4) + data) * rows
    heads = np.empty((rows, 5), np.uint8)
    heads[:, 0] = kind[0]
    lengths = pc.binary_length(body).to_numpy().astype(np.int64) + 4
    heads[:, 1:] = lengths.astype(">i4").view(np.uint8).reshape(rows, 4)
    framed = _joined([_of_width(heads, 5, rows), body], b"")
    return _data(framed)


def _of_width(numbers: np.ndarray, width: int, rows: int) -> pa.Array:
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(numbers))]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def _joined(parts: Sequence[pa.Array | bytes], separator: bytes) -> pa.Array:
    scalars = [
        pa.scalar(one, pa.binary()) if isinstance(one, bytes) else one.cast(pa.binary())
        for one in parts
    ]
    return pc.binary_join_element_wise(*scalars, pa.scalar(separator, pa.binary()))


def _data(values: pa.Array) -> bytes:
    """The bytes of all values, one after the other."""
    _, offsets, data = values.buffers()
    if data is None:
        return b""
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return bytes(memoryview(data)[ends[0] : ends[-1]])


def _lines(values: Sequence[pa.Array], rows: int, delimiter: str) -> bytes:
    if not values:
        return _framed(b"d", rows, [b"\n"])
    line = _joined(values, delimiter.encode())
    return _framed(b"d", rows, [line, b"\n"])


def _escaped(texts: pa.Array, delimiter: str) -> pa.Array:
    pairs = [("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")]
    pairs += [] if delimiter == "\t" else [(delimiter, "\\" + delimiter)]
    for sign, written in pairs:
        texts = pc.replace_substring(texts, sign, written)
    return texts


def _quoted(texts: pa.Array, copy: CopyForm) -> pa.Array:
    quote, escape = copy.quote, copy.escape
    odd = pc.match_substring_regex(texts, _ODD)
    for sign in (copy.delimiter, quote):
        odd = pc.or_(odd, pc.match_substring(texts, sign))
    for whole in {copy.null, "\\."}:
        odd = pc.or_(odd, pc.equal(texts, whole))
    escaped = texts if escape == quote else pc.replace_substring(texts, escape, escape * 2)
    escaped = pc.replace_substring(escaped, quote, escape + quote)
    return pc.if_else(odd, pc.binary_join_element_wise(quote, escaped, quote, ""), texts)
