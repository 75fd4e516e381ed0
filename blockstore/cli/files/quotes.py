"""The quotes of delimited text, checked while it is read: each that opens a value is closed, right
before the value's end.

Rules: a quote opens a value only as its first character; two in a quoted value are one of its own.
Arrow's parser takes text behind a closing quote for a part of the value, and the end of the file
for the end of a value that was never closed: rows would be lost in it without a word. Text without
quotes costs one search for them, and other text is judged a run of quotes at a time, without a step
in Python for each.
"""

from __future__ import annotations

import csv
import io
from collections import deque

import numpy as np
import pyarrow as pa

from blockstore.cli.files.opening import opened

_QUOTE = ord('"')
_PIECE = 1 << 16
"""Bytes that are judged at once: what is made of them on the way stays in a processor's cache."""
_BOM = b"\xef\xbb\xbf"


class Misquoted(Exception):
    """A quote that opens a value, by its place among the text's bytes, and the one that closes it
    before the value's end; None where none does."""

    def __init__(self, opens: int, closes: int | None) -> None:
        super().__init__(f"the quote at byte {opens}")
        self.opens = opens
        self.closes = closes


class Quotes:
    """The state of the quotes over pieces of one text, of any sizes."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = ord(delimiter)
        self._inside = False
        self._opens = 0
        self._begun = False
        self._at = -1
        # The last byte that is no quote, and the quotes after it: what follows them tells what they
        # are.
        self._held = b"\n"

    def take(self, data: bytes) -> None:
        """Go on with the next bytes. Raises Misquoted."""
        if not self._begun and data.startswith(_BOM):
            data, self._at = data[len(_BOM) :], self._at + len(_BOM)
        self._begun = self._begun or bool(data)
        for start in range(0, len(data), _PIECE):
            self._judge(self._held + data[start : start + _PIECE])

    def end(self) -> None:
        """The text is over. Raises Misquoted if it ends in a quoted value."""
        self.take(b"\n")
        if self._inside:
            raise Misquoted(self._opens, None)

    def _judge(self, text: bytes) -> None:
        keep = len(text.rstrip(b'"')) - 1
        if b'"' in text[: keep + 1]:
            self._runs(np.frombuffer(text, np.uint8, keep + 1))
        self._held = text[keep:]
        self._at += keep

    def _runs(self, text: np.ndarray) -> None:
        """Judge runs of quotes, none of them at the first or at the last byte. One of an even
        length leaves things as they are; any other opens a value, closes one, or is a part of a
        value without quotes."""
        quotes = np.flatnonzero(text == _QUOTE)
        apart = np.diff(quotes) != 1
        first, last = quotes[np.r_[True, apart]], quotes[np.r_[apart, True]]
        starts, ends = self._edge(text[first - 1]), self._edge(text[last + 1])
        odd = (last - first) & 1 == 0
        # Where no value starts, an odd run closes one, or opens none: after it no value is open,
        # whatever was before.
        turns = np.cumsum(odd & starts)
        settled = np.maximum.accumulate(np.where(odd & ~starts, turns, -1))
        after = np.where(settled < 0, turns + self._inside, turns - settled) & 1 == 1
        inside = np.r_[self._inside, after[:-1]]
        opening = first[odd & starts & ~inside]
        wrong = ~ends & np.where(inside, odd, starts & ~odd)
        if wrong.any():
            fault = int(np.argmax(wrong))
            before = opening[opening < first[fault]]
            opens = first[fault] if not inside[fault] else before[-1] if len(before) else None
            raise Misquoted(
                self._opens if opens is None else self._at + int(opens), self._at + int(last[fault])
            )
        if len(opening):
            self._opens = self._at + int(opening[-1])
        self._inside = bool(after[-1])

    def _edge(self, text: np.ndarray) -> np.ndarray:
        """Which bytes stand between values."""
        return (text == self._delimiter) | (text == ord("\n")) | (text == ord("\r"))


class Checked(io.RawIOBase):
    """A text's bytes for a parser, whose quotes are checked before it gets them: its reading raises
    Misquoted."""

    def __init__(self, stream: pa.NativeFile, delimiter: str) -> None:
        super().__init__()
        self._stream = stream
        self._quotes = Quotes(delimiter)
        self._kept = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        if size == 0:
            return b""
        asked = None if size is None or size < 0 else max(1, size - len(self._kept))
        more: bytes = self._stream.read(asked)
        if more:
            self._quotes.take(more)
        else:
            self._quotes.end()
        data, self._kept = self._kept + more, b""
        if more and len(data) > 1 and data.endswith(b"\r"):
            # Arrow takes a \n that begins a piece for the second half of a line's end, in quotes
            # too, and drops it.
            data, self._kept = data[:-1], b"\r"
        return data


def first_fault(path: str, delimiter: str) -> Misquoted | None:
    """The first quote of a file that is not closed where it should be."""
    try:
        with opened(path) as stream:
            checked = Checked(stream, delimiter)
            while checked.read(_PIECE):
                pass
    except Misquoted as fault:
        return fault
    return None


def place_of(path: str, delimiter: str, quote: int) -> tuple[int, int]:
    """The line of a quote, from 1, and the number of fields before its own in its row."""
    with opened(path) as stream:
        head = io.BufferedReader(_Head(stream, quote + 1))
        reader = csv.reader(
            io.TextIOWrapper(head, encoding="utf-8-sig", newline=""), delimiter=delimiter
        )
        (row,) = deque(reader, maxlen=1)
    return reader.line_num, len(row) - 1


class _Head(io.RawIOBase):
    """The first bytes of a stream."""

    def __init__(self, stream: pa.NativeFile, size: int) -> None:
        super().__init__()
        self._stream = stream
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        data = self._stream.read(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)
