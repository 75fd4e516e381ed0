"""PostgreSQL's protocol 3.0 as bytes: what a client sends becomes values, and what the gateway
sends is made of values. It does no input or output.

Rules:
- A message is bounded before it is kept: a few kilobytes before a client is known, then
  ``largest``. A length that a message cannot have is an error at once.
- Every byte of a message is accounted for: a message that is too short or too long is an error.
- Nothing here depends on what was sent before, except that the first message has no type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from blockstore.errors import Invalid

LARGEST_FIRST = 10_000
"""Bytes of a message of a client that is not known yet, as in PostgreSQL."""
_PROTOCOL_3 = 3
_CANCEL, _TLS, _GSS = 80_877_102, 80_877_103, 80_877_104
_SHORT, _INT, _HEAD = struct.Struct("!h"), struct.Struct("!i"), struct.Struct("!ci")


class Malformed(Invalid):
    """The bytes are not a message of the protocol."""


@dataclass(frozen=True, slots=True)
class Startup:
    """The first message: who connects, and what it sets."""

    minor: int
    options: dict[str, str]


@dataclass(frozen=True, slots=True)
class TlsRequest:
    """A client would like to use TLS, or GSSAPI, which is never there."""

    gss: bool = False


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Cancel what another connection runs."""

    process: int
    secret: bytes


@dataclass(frozen=True, slots=True)
class Password:
    """A password."""

    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """Run a text of statements."""

    sql: str


@dataclass(frozen=True, slots=True)
class Parse:
    """Prepare a statement."""

    name: str
    sql: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """Make a portal of a prepared statement and values."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """Describe a prepared statement (``S``) or a portal (``P``)."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Return rows of a portal, at most ``limit``; 0 for all."""

    portal: str
    limit: int


@dataclass(frozen=True, slots=True)
class Close:
    """Forget a prepared statement (``S``) or a portal (``P``)."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Sync:
    """The end of a series of messages."""


@dataclass(frozen=True, slots=True)
class Flush:
    """Send what there is."""


@dataclass(frozen=True, slots=True)
class CopyData:
    """A part of what a COPY reads."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CopyDone:
    """The end of what a COPY reads."""


@dataclass(frozen=True, slots=True)
class CopyFail:
    """The client gives a COPY up."""

    why: str


@dataclass(frozen=True, slots=True)
class Terminate:
    """The client leaves."""


Message: TypeAlias = (
    Startup
    | TlsRequest
    | CancelRequest
    | Password
    | Query
    | Parse
    | Bind
    | Describe
    | Execute
    | Close
    | Sync
    | Flush
    | CopyData
    | CopyDone
    | CopyFail
    | Terminate
)


class Incoming:
    """The bytes of one client, cut into messages."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._bytes = bytearray()
        self.started = False
        """Whether the first message has come; set by the reader of it."""
        self.known = False
        """Whether the client is known, so that its messages may be large."""

    @property
    def rest(self) -> int:
        """How many bytes have come that are not a complete message."""
        return len(self._bytes)

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self._bytes += data

    def take(self) -> Message | None:
        """The next message; None if it is not complete. Raises Malformed."""
        head = 5 if self.started else 4
        if len(self._bytes) < head:
            return None
        (length,) = _INT.unpack_from(self._bytes, head - 4)
        largest = self._largest if self.known else LARGEST_FIRST
        if length < 4 or length > largest:
            raise Malformed(
                f"a message says that it has {length:,} bytes, expected 4 to {largest:,}: check "
                "that the client speaks PostgreSQL's protocol, and send less at a time"
            )
        end = head - 4 + length
        if len(self._bytes) < end:
            return None
        kind = chr(self._bytes[0]) if self.started else ""
        body = bytes(self._bytes[head:end])
        del self._bytes[:end]
        return _message(kind, _Body(body))


class _Body:
    """The fields of one message."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def text(self) -> str:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise Malformed("a text of a message has no end")
        try:
            found = self._data[self._at : end].decode()
        except UnicodeDecodeError as error:
            raise Malformed("a text of a message is not UTF-8") from error
        self._at = end + 1
        return found

    def short(self) -> int:
        return self._number(_SHORT)

    def whole(self) -> int:
        return self._number(_INT)

    def take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise Malformed(f"a value of a message has {size} bytes, which it does not contain")
        found = self._data[self._at : self._at + size]
        self._at += size
        return found

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def several(self, one: Callable[[], int]) -> tuple[int, ...]:
        return tuple(one() for _ in range(self.count()))

    def count(self) -> int:
        return self.short() & 0xFFFF

    @property
    def done(self) -> bool:
        return self._at == len(self._data)

    def _number(self, form: struct.Struct) -> int:
        if self._at + form.size > len(self._data):
            raise Malformed("a message ends before its last number")
        (found,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        number: int = found
        return number


def _message(kind: str, body: _Body) -> Message:
    if kind not in _READERS:
        raise Malformed(f"a message has the type {kind!r}, which the protocol does not have")
    found = _READERS[kind](body)
    if not body.done:
        raise Malformed(f"a message of type {kind!r} is longer than its fields")
    return found


def _first(body: _Body) -> Message:
    code = body.whole()
    if code == _CANCEL:
        return CancelRequest(body.whole(), body.rest())
    if code in (_TLS, _GSS):
        return TlsRequest(gss=code == _GSS)
    if code >> 16 != _PROTOCOL_3:
        raise Malformed(
            f"the client asks for protocol {code >> 16}.{code & 0xFFFF}, and this gateway has 3.0"
        )
    options: dict[str, str] = {}
    while name := body.text():
        options[name] = body.text()
    return Startup(code & 0xFFFF, options)


def _bind(body: _Body) -> Bind:
    portal, statement, formats = body.text(), body.text(), body.several(body.short)
    values = tuple(
        None if (size := body.whole()) == -1 else body.take(size) for _ in range(body.count())
    )
    return Bind(portal, statement, formats, values, body.several(body.short))


def _letter(body: _Body) -> str:
    found = body.take(1)
    if found not in (b"S", b"P"):
        raise Malformed(f"a message is about {found!r}, expected S for a statement or P")
    return found.decode()


_READERS: dict[str, Callable[[_Body], Message]] = {
    "": _first,
    "p": lambda body: Password(body.text()),
    "Q": lambda body: Query(body.text()),
    "P": lambda body: Parse(body.text(), body.text(), body.several(body.whole)),
    "B": _bind,
    "D": lambda body: Describe(_letter(body), body.text()),
    "E": lambda body: Execute(body.text(), max(0, body.whole())),
    "C": lambda body: Close(_letter(body), body.text()),
    "S": lambda body: Sync(),
    "H": lambda body: Flush(),
    "d": lambda body: CopyData(body.rest()),
    "c": lambda body: CopyDone(),
    "f": lambda body: CopyFail(body.text()),
    "X": lambda body: Terminate(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a result, as a client is shown it."""

    name: str
    type: int
    size: int
    modifier: int = -1


def framed(kind: bytes, body: bytes = b"") -> bytes:
    """A message."""
    return _HEAD.pack(kind, len(body) + 4) + body


NO_TLS, TLS = b"N", b"S"
SIGNED_IN = framed(b"R", _INT.pack(0))
ASKS_PASSWORD = framed(b"R", _INT.pack(3))
PARSED, BOUND, CLOSED = framed(b"1"), framed(b"2"), framed(b"3")
NO_DATA, EMPTY, SUSPENDED, COPIED = framed(b"n"), framed(b"I"), framed(b"s"), framed(b"c")


def ready(state: str) -> bytes:
    """The gateway waits for the next message: idle (``I``), in a transaction (``T``), or in one
    that failed (``E``)."""
    return framed(b"Z", state.encode())


def setting(name: str, value: str) -> bytes:
    """The value of a setting."""
    return framed(b"S", _text(name) + _text(value))


def key(process: int, secret: bytes) -> bytes:
    """What a client needs to cancel a statement."""
    return framed(b"K", _INT.pack(process) + secret)


def older(unknown: Sequence[str]) -> bytes:
    """The gateway has protocol 3.0 only, and not these options."""
    return framed(b"v", _INT.pack(0) + _INT.pack(len(unknown)) + b"".join(map(_text, unknown)))


def columns(found: Sequence[Column], formats: Sequence[int]) -> bytes:
    """The columns of the rows that come."""
    parts = [_SHORT.pack(len(found))]
    for one, form in zip(found, formats, strict=True):
        parts.append(_text(one.name))
        parts.append(struct.pack("!ihIhih", 0, 0, one.type, one.size, one.modifier, form))
    return framed(b"T", b"".join(parts))


def parameters(types: Sequence[int]) -> bytes:
    """The types of the parameters of a statement."""
    return framed(b"t", _SHORT.pack(len(types)) + struct.pack(f"!{len(types)}I", *types))


def row(values: Iterable[bytes | None]) -> bytes:
    """One row."""
    cells = [b"\xff\xff\xff\xff" if one is None else _INT.pack(len(one)) + one for one in values]
    return framed(b"D", _SHORT.pack(len(cells)) + b"".join(cells))


def complete(tag: str) -> bytes:
    """A statement has ended."""
    return framed(b"C", _text(tag))


def copies(*, out: bool, binary: bool, columns: int) -> bytes:
    """The data of a COPY follows, or is expected."""
    body = struct.pack("!bh", binary, columns) + _SHORT.pack(binary) * columns
    return framed(b"H" if out else b"G", body)


def problem(fields: Iterable[tuple[str, str]], *, notice: bool = False) -> bytes:
    """An error, or a notice."""
    parts = b"".join(letter.encode() + _text(value) for letter, value in fields)
    return framed(b"N" if notice else b"E", parts + b"\0")


def problem_notice(message: str) -> bytes:
    """A warning."""
    fields = [("S", "WARNING"), ("V", "WARNING"), ("C", "01000"), ("M", message)]
    return problem(fields, notice=True)


def messages(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The messages of some bytes that a server sent; for tests and tools."""
    at = 0
    while at < len(data):
        kind, length = _HEAD.unpack_from(data, at)
        yield kind.decode(), data[at + 5 : at + 1 + length]
        at += 1 + length


def _text(value: str) -> bytes:
    return value.encode("utf-8", "replace").replace(b"\0", b"") + b"\0"
