"""The lines of a COPY FROM, as lines of the CSV file of an upload.

Rules:
- The two forms of PostgreSQL mean the same rows: null is an empty field, an empty text one in
  quotes, true and false are words, bytes are base64.
- A line with too few or too many fields is refused with its number, before anything is written.
- Where the client cuts its data into parts changes nothing.
- Memory holds a part of the data and one unfinished line, which has at most 16 MiB. Each byte is
  looked at a few times, however long a part or a line is.
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
from blockstore.reader.postgres.states import COPY_FAILED, NOT_UTF8, Refused
from blockstore.reader.postgres.types import BOOL, BYTEA, ELEMENTS, JSON
from blockstore.reader.postgres.values import value_of

_LONGEST = 16 << 20
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_ESCAPED = re.compile(rb"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_NEWLINE, _BACKSLASH = 10, 92
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
        self._rest = bytearray()
        self._scanned = 0
        """How much of the rest has no end of a line in it."""
        self._skips = form.header
        self._ended = False
        self.rows = 0

    def feed(self, data: bytes) -> bytes:
        """The lines that are complete with this part. Raises Refused."""
        if self._ended:
            return b""
        self._rest += data
        end = self._complete()
        if len(self._rest) - end > _LONGEST:
            raise self._wrong(f"has more than {_LONGEST >> 20} MiB")
        complete = bytes(self._rest[:end])
        del self._rest[:end]
        return self._made(complete) if complete else b""

    def end(self) -> bytes:
        """The last line. Raises Refused."""
        rest = bytes(self._rest)
        self.clear()
        return self._made(rest) if rest and not self._ended else b""

    def clear(self) -> None:
        """Forget what is unfinished."""
        self._rest = bytearray()
        self._scanned = 0

    @abstractmethod
    def _complete(self) -> int:
        """Where the last complete line of the rest ends; what is behind it was scanned."""

    @abstractmethod
    def _split(self, text: str) -> Iterator[list[str | None]]:
        """The values of each line."""

    def _made(self, data: bytes) -> bytes:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise self._wrong("is not UTF-8", NOT_UTF8) from error
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

    def _wrong(self, what: str, state: str = COPY_FAILED) -> Refused:
        return Refused(state, f"line {max(1, self.rows)} of the COPY {what}; nothing was written")


class TextLines(Lines):
    """Lines in the text form: special characters have a backslash."""

    def _complete(self) -> int:
        rest, begin, end = self._rest, self._scanned, len(self._rest)
        while (at := rest.rfind(b"\n", begin, end)) >= 0 and _ends_escaped(rest, at):
            end = at
        self._scanned = len(rest) - (at + 1)
        return at + 1

    def _split(self, text: str) -> Iterator[list[str | None]]:
        # A line ends with a newline; one in a value has a backslash before it or is written \n.
        held: list[str] = []
        for raw in text.split("\n")[: None if not text.endswith("\n") else -1]:
            held.append(raw)
            if raw.endswith("\\") and _ends_escaped(raw.encode(), None):
                continue
            line = "\n".join(held)
            held.clear()
            if line.endswith("\r") and not _ends_escaped(line[:-1].encode(), None):
                line = line[:-1]
            if line == "\\.":
                self._ended = True
                return
            yield self._values(line)
        if held:
            yield self._values("\n".join([*held, ""] if text.endswith("\n") else held))

    def _values(self, line: str) -> list[str | None]:
        return [self._value(one) for one in _fields(line, self._form.delimiter)]

    def _value(self, raw: str) -> str | None:
        if raw == self._form.null:
            return None
        if "\\" not in raw:
            return raw
        try:
            # What is escaped is a byte, and several bytes may be one sign.
            return _ESCAPED.sub(_unescaped, raw.encode()).decode()
        except UnicodeDecodeError as error:
            raise self._wrong("has escaped bytes that are not UTF-8", NOT_UTF8) from error


def _ends_escaped(data: bytes | bytearray, end: int | None) -> bool:
    """Whether a backslash before ``end`` escapes what comes there."""
    at = stop = len(data) if end is None else end
    while at and data[at - 1] == _BACKSLASH:
        at -= 1
    return (stop - at) % 2 == 1


def _fields(line: str, delimiter: str) -> list[str]:
    """The fields of a line; a delimiter with a backslash belongs to its field."""
    pieces = line.split(delimiter)
    if "\\" + delimiter not in line:
        return pieces
    found: list[str] = []
    held: list[str] = []
    for piece in pieces:
        held.append(piece)
        if not (piece.endswith("\\") and _ends_escaped(piece.encode(), None)):
            found.append(delimiter.join(held))
            held.clear()
    return [*found, delimiter.join(held)] if held else found


def _unescaped(match: re.Match[bytes]) -> bytes:
    own = match[1]
    if own[:1] == b"x" and len(own) > 1:
        return bytes((int(own[1:], 16),))
    if own[:1] in b"01234567":
        return bytes((int(own, 8) & 0xFF,))
    return _ESCAPES.get(own, own)


class CsvLines(Lines):
    """Lines in CSV: a value may hold anything in quotes, which may begin anywhere in it."""

    def __init__(self, form: CopyForm, types: Sequence[int], header: Sequence[str] = ()) -> None:
        super().__init__(form, types, header)
        quote, escape, delimiter = map(re.escape, (form.quote, form.escape, form.delimiter))
        self._inside = False
        """Whether what was scanned ends in quotes."""
        self._signs = re.compile(rf"{quote}|{escape}|\n".encode())
        inner = rf"[^{quote}]++|{quote}{quote}"
        if form.escape != form.quote:
            inner = rf"[^{quote}{escape}]++|{escape}[{quote}{escape}]?+"
        self._token = re.compile(
            rf"([^{delimiter}{quote}\r\n]++|\r(?!\n))|{quote}((?:{inner})*+){quote}"
            rf"|({delimiter})|(\r?\n)",
        )
        self._escaped = re.compile(rf"{escape}([{quote}{escape}])")

    def _complete(self) -> int:
        rest, inside, end = self._rest, self._inside, 0
        scanned, skip = len(rest), -1
        quote = ord(self._form.quote)
        if not inside and rest.find(quote, self._scanned) < 0:
            end = rest.rfind(b"\n", self._scanned) + 1
            self._scanned = scanned - end
            return end
        for match in self._signs.finditer(rest, self._scanned):
            at = match.start()
            sign = rest[at]
            if at == skip:
                continue
            if sign == quote:
                inside = not inside
            elif sign == _NEWLINE:
                end = end if inside else at + 1
            elif inside:
                if at + 1 == scanned:
                    scanned = at  # what it escapes has not come yet
                    break
                skip = at + 1
        self._inside, self._scanned = inside, scanned - end
        return end

    def _split(self, text: str) -> Iterator[list[str | None]]:
        if self._form.quote in text:
            yield from self._split_quoted(text)
            return
        for raw in text.split("\n")[: None if not text.endswith("\n") else -1]:
            line = raw.removesuffix("\r")
            if line == "\\.":
                self._ended = True
                return
            null = self._form.null
            yield [None if one == null else one for one in line.split(self._form.delimiter)]

    def _split_quoted(self, text: str) -> Iterator[list[str | None]]:
        values: list[str | None] = []
        parts: list[str] = []
        quoted, at = False, 0
        while at < len(text) or values or parts or quoted:
            match = self._token.match(text, at)
            if match is None and at < len(text):
                raise self._wrong("has a quote without an end")
            kind = 4 if match is None else match.lastindex
            at = at if match is None else match.end()
            if match is not None and kind == 1:
                parts.append(match[1])
            elif match is not None and kind == 2:
                quoted = True
                inner = match[2]
                parts.append(
                    self._escaped.sub(r"\1", inner) if self._form.escape in inner else inner
                )
            else:
                value = "".join(parts)
                values.append(None if value == self._form.null and not quoted else value)
                alone = len(values) == 1 and value == "\\." and not quoted
                parts, quoted = [], False
                if kind == 3:
                    continue
                if alone:
                    self._ended = True
                    return
                yield values
                values = []


class BinaryLines(Lines):
    """Rows in the binary form: for each field its length and its bytes."""

    def __init__(self, form: CopyForm, types: Sequence[int], header: Sequence[str] = ()) -> None:
        super().__init__(form, types, header)
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        if self._ended:
            return b""
        self._rest += data
        made: list[bytes] = []
        at = 0
        while not self._ended and (row := self._row(at)) is not None:
            values, at = row
            self.rows += 1
            made.append(csv_line([*values, *self._absent]))
        del self._rest[:at]
        if len(self._rest) > _LONGEST:
            raise self._wrong(f"has more than {_LONGEST >> 20} MiB")
        return b"".join(made)

    def end(self) -> bytes:
        if self._rest and not self._ended:
            raise self._wrong("is not complete")
        return b""

    def _row(self, at: int) -> tuple[list[str | None], int] | None:
        """The values of the row from ``at``, and where it ends; None if it is not complete."""
        data = self._rest
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
        found: list[tuple[int, int]] = []
        for _ in self._types:
            if len(data) < at + 4:
                return None
            (size,) = struct.unpack_from("!i", data, at)
            at += 4
            found.append((at, size))
            at += max(0, size)
            if len(data) < at:
                return None
        self._begun = True
        values: list[str | None] = []
        for place, (oid, (begin, size)) in enumerate(zip(self._types, found, strict=True), start=1):
            own = None if size < 0 else bytes(data[begin : begin + size])
            values.append(_as_text(value_of(own, oid, 1, place), oid))
        return values, at

    def _complete(self) -> int:
        return len(self._rest)

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
