"""Where an HTTP/1.1 message begins and ends, on a stream of bytes.

Owns what a relay must know of a message: its head, and how long its body is. Nothing is changed on
the way: heads and pieces are the bytes that were received.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["LIMIT", "Body", "Ending", "Head", "Piece", "pieces", "read_head"]

LIMIT = 256 << 10
"""Bytes of a head at most, and of a piece."""
END = b"\r\n\r\n"
NO_BODY = (204, 304)


class Ending(StrEnum):
    """What ends a body."""

    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"
    """The end of the connection."""


@dataclass(frozen=True, slots=True)
class Body:
    """How long a body is."""

    ending: Ending
    length: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a body."""

    data: bytes
    payload: int
    """How many of them belong to the object: a chunk's own frame does not."""
    last: bool


@dataclass(frozen=True, slots=True)
class Head:
    """The first line and the header fields of a message."""

    data: bytes
    first: tuple[str, str, str]
    fields: dict[str, str]
    """By name in lower case."""

    @property
    def method(self) -> str:
        """The method of a request."""
        return self.first[0]

    @property
    def target(self) -> str:
        """The path and the query of a request."""
        return self.first[1]

    @property
    def status(self) -> int:
        """The status of a response."""
        return int(self.first[1])

    @property
    def closes(self) -> bool:
        """Whether the connection ends with this message."""
        return "close" in self.fields.get("connection", "").lower()

    @property
    def expects(self) -> bool:
        """Whether the client waits for a go-ahead before it sends the body."""
        return self.fields.get("expect", "").lower() == "100-continue"

    def request_body(self) -> Body:
        """The body of a request with this head."""
        return self._sized() or Body(Ending.LENGTH)

    def response_body(self, method: str) -> Body:
        """The body of a response with this head to a request with ``method``."""
        if method == "HEAD" or self.status in NO_BODY or self.status < 200:
            return Body(Ending.LENGTH)
        return self._sized() or Body(Ending.CLOSE)

    def _sized(self) -> Body | None:
        if "chunked" in self.fields.get("transfer-encoding", "").lower():
            return Body(Ending.CHUNKED)
        if "content-length" in self.fields:
            return Body(Ending.LENGTH, int(self.fields["content-length"]))
        return None


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Return the next head, or None where the connection ended before one began."""
    try:
        data = await reader.readuntil(END)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise ConnectionError("the connection ended within a head") from error
        return None
    first, *lines = data[: -len(END)].decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2:
        raise ConnectionError(f"{first!r} does not begin an HTTP message")
    fields = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields[name.strip().lower()] = value.strip()
    return Head(data, (words[0], words[1], words[2] if len(words) > 2 else ""), fields)


async def pieces(reader: asyncio.StreamReader, body: Body) -> AsyncIterator[Piece]:
    """The body, piece by piece; no piece for an empty one. The bytes are those that were received.

    Raises ConnectionError if the connection ends before the body.
    """
    if body.ending is Ending.LENGTH:
        async for piece in _counted(reader, body.length, last=True):
            yield piece
    elif body.ending is Ending.CHUNKED:
        async for piece in _chunks(reader):
            yield piece
    else:
        while data := await reader.read(LIMIT):
            yield Piece(data, len(data), last=False)


async def _counted(
    reader: asyncio.StreamReader, length: int, *, last: bool
) -> AsyncIterator[Piece]:
    left = length
    while left:
        data = await reader.read(min(left, LIMIT))
        if not data:
            raise ConnectionError(f"the connection ended {left} bytes before its body")
        left -= len(data)
        yield Piece(data, len(data), last=last and not left)


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[Piece]:
    while True:
        line = await _line(reader)
        size = int(line.partition(b";")[0], 16)
        if not size:
            break
        yield Piece(line, 0, last=False)
        async for piece in _counted(reader, size, last=False):
            yield piece
        yield Piece(await _line(reader), 0, last=False)
    ending = line
    while (line := await _line(reader)) != b"\r\n":
        ending += line
    yield Piece(ending + line, 0, last=True)


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n")
    except asyncio.IncompleteReadError as error:
        raise ConnectionError("the connection ended within a chunked body") from error
