"""Check the quotes of delimited text while it is read: each must be closed at the end of its value.

Rules: a quote opens a value only as its first character; two quotes in a quoted value are one quote
of its text. Arrow's parser takes text after a closing quote as a part of the value, and the end of
the file as the end of an open value: rows would be lost in it silently. Text without quotes costs
one search; in other text all runs of quotes are judged at once with numpy.
"""

from __future__ import annotations

import csv
import io
from collections import deque

import numpy as np
import pyarrow as pa

from blockstore.cli.files.opening import opened_text

_QUOTE = ord('"')
_PIECE = 1 << 16
"""Bytes that are judged at once: the intermediate arrays fit into a processor's cache."""
_BOM = b"\xef\xbb\xbf"


class Misquoted(Exception):
    """A quote that is not closed at the end of its value.

    ``opens`` and ``closes`` are the byte offsets of the two quotes; ``closes`` is None if there is
    no closing one.
    """

    def __init__(self, opens: int, closes: int | None) -> None:
        super().__init__(f"the quote at byte {opens}")
        self.opens = opens
        self.closes = closes


class Quotes:
    """The state of the quotes in a text that arrives in pieces of any size."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = ord(delimiter)
        self._inside = False
        self._opens = 0
        self._begun = False
        self._at = -1
        # The last byte that is not a quote, and the quotes after it: the next byte decides about
        # them.
        self._held = b"\n"

    def take(self, data: bytes) -> None:
        """Check the next bytes. Raises Misquoted."""
        if not self._begun and data.startswith(_BOM):
            data, self._at = data[len(_BOM) :], self._at + len(_BOM)
        self._begun = self._begun or bool(data)
        for start in range(0, len(data), _PIECE):
            self._judge(self._held + data[start : start + _PIECE])

    def end(self) -> None:
        """Check the end of the text. Raises Misquoted if it is inside a quoted value."""
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
        """Judge runs of quotes; none of them is at the first or the last byte.

        A run of even length changes nothing. Any other opens a value, closes one, or is a part of
        an unquoted value.
        """
        quotes = np.flatnonzero(text == _QUOTE)
        apart = np.diff(quotes) != 1
        first, last = quotes[np.r_[True, apart]], quotes[np.r_[apart, True]]
        starts, ends = self._edge(text[first - 1]), self._edge(text[last + 1])
        odd = (last - first) & 1 == 0
        # An odd run that is not at the start of a value closes one, or opens none: after it no
        # value is open, whatever was before.
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
        """Return which bytes separate values."""
        return (text == self._delimiter) | (text == ord("\n")) | (text == ord("\r"))


class Checked(io.RawIOBase):
    """A text's bytes for a parser, with the quotes checked first: reading raises Misquoted."""

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
        wanted = None if size is None or size < 0 else max(1, size - len(self._kept))
        more: bytes = self._stream.read(wanted)
        if more:
            self._quotes.take(more)
        else:
            self._quotes.end()
        data, self._kept = self._kept + more, b""
        if more and len(data) > 1 and data.endswith(b"\r"):
            # Arrow takes a \n at the beginning of a piece as the second half of a line end, also in
            # quotes, and drops it.
            data, self._kept = data[:-1], b"\r"
        return data


def first_fault(path: str, delimiter: str) -> Misquoted | None:
    """Return the first quote of a file that is not closed at the end of its value."""
    try:
        with opened_text(path) as stream:
            checked = Checked(stream, delimiter)
            while checked.read(_PIECE):
                pass
    except Misquoted as fault:
        return fault
    return None


def place_of(path: str, delimiter: str, quote: int) -> tuple[int, int]:
    """Return the line of a quote, from 1, and the number of fields before it in its row."""
    with opened_text(path) as stream:
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
