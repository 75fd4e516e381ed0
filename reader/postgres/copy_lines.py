"""The lines of a COPY FROM, as lines of the CSV file of an upload.

Rules:
- The two forms of PostgreSQL mean the same rows: null is an empty field, an empty text one in
  quotes, true and false are words, bytes are base64.
- A line with too few or too many fields is refused with its number, before anything is written.
- Memory holds a part of the data and one unfinished line, which has at most 16 MiB.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from decimal import Decimal

from blockstore.reader.postgres.rows import CopyForm
from blockstore.reader.postgres.states import COPY_FAILED, Refused
from blockstore.reader.postgres.types import BOOL, BYTEA, ELEMENTS, JSON
from blockstore.reader.postgres.values import value_of

_LONGEST = 16 << 20
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_SWITCHES = {
    **dict.fromkeys(("t", "true", "y", "yes", "on", "1"), "true"),
    **dict.fromkeys(("f", "false", "n", "no", "off", "0"), "false"),
}


def csv_line(values: Sequence[str | None]) -> bytes:
    """A line: null is an empty field, everything else is in quotes."""
    cells = ["" if one is None else '"' + one.replace('"', '""') + '"' for one in values]
    return (",".join(cells) + "\n").encode()


class Lines(ABC):
    """Lines that come in parts, for columns of some types. ``rows`` is how many have come."""

    def __init__(self, form: CopyForm, types: Sequence[int], header: Sequence[str] = ()) -> None:
        self.header = tuple(header)
        """The columns of the file: those that come, and others, which are null."""
        self._absent: list[str | None] = [None] * (len(self.header) - len(types))
        self._form = form
        self._types = types
        self._columns = len(types)
        self._as_base64 = frozenset(at for at, oid in enumerate(types) if oid == BYTEA)
        self._as_switch = frozenset(at for at, oid in enumerate(types) if oid == BOOL)
        self._rest = b""
        self._skips = form.header
        self._ended = False
        self.rows = 0

    def feed(self, data: bytes) -> bytes:
        """The lines that are complete with this part. Raises Refused."""
        if self._ended:
            return b""
        data = self._rest + data
        end = self._complete(data)
        self._rest = data[end:]
        if len(self._rest) > _LONGEST:
            raise self._wrong(f"has more than {_LONGEST >> 20} MiB")
        return self._made(data[:end])

    def end(self) -> bytes:
        """The last line. Raises Refused."""
        rest, self._rest = self._rest, b""
        return self._made(rest) if rest and not self._ended else b""

    def clear(self) -> None:
        """Forget what is unfinished."""
        self._rest = b""

    @abstractmethod
    def _complete(self, data: bytes) -> int:
        """Where the last complete line ends."""

    @abstractmethod
    def _split(self, text: str) -> Iterator[list[str | None]]:
        """The values of each line."""

    def _made(self, data: bytes) -> bytes:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise self._wrong("is not UTF-8") from error
        made: list[bytes] = []
        for values in self._split(text):
            if self._skips:
                self._skips = False
                continue
            self.rows += 1
            if len(values) != self._columns:
                raise self._wrong(f"has {len(values)} values, expected {self._columns}")
            made.append(csv_line([*self._converted(values), *self._absent]))
        return b"".join(made)

    def _converted(self, values: list[str | None]) -> list[str | None]:
        for place in self._as_switch:
            own = values[place]
            if own is not None:
                values[place] = _SWITCHES.get(own.strip().lower(), own)
        for place in self._as_base64:
            own = values[place]
            if own is not None:
                values[place] = self._base64(own)
        return values

    def _base64(self, text: str) -> str:
        try:
            if not text.startswith("\\x"):
                raise ValueError
            return base64.b64encode(bytes.fromhex(text[2:])).decode()
        except ValueError:
            raise self._wrong(
                f"has {text[:20]!r}, expected bytes as \\x and hexadecimal digits"
            ) from None

    def _wrong(self, what: str) -> Refused:
        return Refused(
            COPY_FAILED, f"line {max(1, self.rows)} of the COPY {what}; nothing was written"
        )


class TextLines(Lines):
    """Lines in the text form: special characters have a backslash."""

    def _complete(self, data: bytes) -> int:
        return data.rfind(b"\n") + 1

    def _split(self, text: str) -> Iterator[list[str | None]]:
        # A line ends with a newline; one in a value has a backslash before it or is written \n.
        held = ""
        for raw in text.split("\n")[: None if not text.endswith("\n") else -1]:
            line = held + raw.removesuffix("\r")
            if (len(line) - len(line.rstrip("\\"))) % 2:
                held = line + "\n"
                continue
            held = ""
            if line == "\\.":
                self._ended = True
                return
            yield [self._value(one) for one in _fields(line, self._form.delimiter)]
        if held:
            yield [self._value(one) for one in _fields(held, self._form.delimiter)]

    def _value(self, raw: str) -> str | None:
        if raw == self._form.null:
            return None
        return _ESCAPED.sub(_unescaped, raw) if "\\" in raw else raw


def _fields(line: str, delimiter: str) -> list[str]:
    """The fields of a line; a delimiter with a backslash belongs to its field."""
    if "\\" + delimiter not in line:
        return line.split(delimiter)
    found, held = [], ""
    for piece in line.split(delimiter):
        held += piece
        if (len(piece) - len(piece.rstrip("\\"))) % 2:
            held += delimiter
            continue
        found.append(held)
        held = ""
    return [*found, held] if held else found


def _unescaped(match: re.Match[str]) -> str:
    own = match[1]
    if own[0] == "x" and len(own) > 1:
        return chr(int(own[1:], 16))
    if own[0] in "01234567":
        return chr(int(own, 8) & 0xFF)
    return _ESCAPES.get(own, own)


class CsvLines(Lines):
    """Lines in CSV: a value in quotes may hold anything, also a newline."""

    def _complete(self, data: bytes) -> int:
        quote = self._form.quote.encode()
        if quote not in data:
            return data.rfind(b"\n") + 1
        end, inside, at = 0, False, 0
        for match in re.finditer(re.escape(quote) + rb"|\n", data):
            at = match.start()
            if match.group() == quote:
                before = data[at - 1 : at] if at else b""
                escape = self._form.escape.encode()
                inside ^= not (inside and escape != quote and before == escape)
            elif not inside:
                end = at + 1
        return end

    def _split(self, text: str) -> Iterator[list[str | None]]:
        at = 0
        while at < len(text):
            values, at = self._line(text, at)
            if values == ["\\."]:
                self._ended = True
                return
            yield values

    def _line(self, text: str, at: int) -> tuple[list[str | None], int]:
        """One line from ``at``, and where the next begins."""
        values: list[str | None] = []
        while True:
            value, at = self._cell(text, at)
            values.append(value)
            if at >= len(text):
                return values, at
            sign = text[at]
            at += 1
            if sign == "\r" and text[at : at + 1] == "\n":
                at += 1
            if sign != self._form.delimiter:
                return values, at

    def _cell(self, text: str, at: int) -> tuple[str | None, int]:
        """One value from ``at``, and where it ends."""
        form = self._form
        if text[at : at + 1] != form.quote:
            ends = [text.find(sign, at) for sign in (form.delimiter, "\n", "\r\n")]
            end = min([one for one in ends if one >= 0], default=len(text))
            plain = text[at:end]
            return None if plain == form.null else plain, end
        at += 1
        parts: list[str] = []
        while at < len(text):
            sign = text[at]
            if (
                sign == form.escape
                and text[at + 1 : at + 2] in (form.quote, form.escape)
                and (text[at + 1 : at + 2])
            ):
                parts.append(text[at + 1])
                at += 2
            elif sign == form.quote:
                return "".join(parts), at + 1
            else:
                end = min(
                    [
                        one
                        for one in (text.find(form.quote, at + 1), text.find(form.escape, at + 1))
                        if one >= 0
                    ],
                    default=len(text),
                )
                parts.append(text[at:end])
                at = end
        raise self._wrong("has a quote without an end")


class BinaryLines(Lines):
    """Rows in the binary form: for each field its length and its bytes."""

    def __init__(self, form: CopyForm, types: Sequence[int], header: Sequence[str] = ()) -> None:
        super().__init__(form, types, header)
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        self._rest += data
        made: list[bytes] = []
        while not self._ended and (values := self._row()) is not None:
            self.rows += 1
            made.append(csv_line([*values, *self._absent]))
        if len(self._rest) > _LONGEST:
            raise self._wrong(f"has more than {_LONGEST >> 20} MiB")
        return b"".join(made)

    def end(self) -> bytes:
        if self._rest and not self._ended:
            raise self._wrong("is not complete")
        return b""

    def _row(self) -> list[str | None] | None:
        """The values of the next row; None if it is not complete."""
        data, at = self._rest, 0
        if not self._begun:
            if len(data) < len(_BINARY_HEAD) + 8:
                return None
            if not data.startswith(_BINARY_HEAD):
                raise self._wrong("does not begin as a binary COPY begins")
            (more,) = struct.unpack_from("!i", data, len(_BINARY_HEAD) + 4)
            at = len(_BINARY_HEAD) + 8 + max(0, more)
        if len(data) < at + 2:
            return None
        (count,) = struct.unpack_from("!h", data, at)
        at += 2
        if count == -1:
            self._ended = True
            return None
        if count != self._columns:
            raise self._wrong(f"has {count} values, expected {self._columns}")
        values: list[str | None] = []
        for place, oid in enumerate(self._types, start=1):
            if len(data) < at + 4:
                return None
            (size,) = struct.unpack_from("!i", data, at)
            at += 4
            if len(data) < at + size:
                return None
            own = None if size < 0 else data[at : at + size]
            at += max(0, size)
            values.append(_as_text(value_of(own, oid, 1, place), oid))
        self._begun, self._rest = True, data[at:]
        return values

    def _complete(self, data: bytes) -> int:
        return len(data)

    def _split(self, text: str) -> Iterator[list[str | None]]:
        return iter(())


_BINARY_HEAD = b"PGCOPY\n\xff\r\n\0"


def _as_text(value: object, oid: int) -> str | None:
    """A value as an upload reads it. Raises Refused for one that CSV cannot contain."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return format(value, "f")
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
    if oid in ELEMENTS or oid == JSON:
        raise Refused(COPY_FAILED, "a COPY cannot contain lists or nested values: use INSERT")
    return str(value)
