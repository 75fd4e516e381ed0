"""A client that sends the messages of PostgreSQL's protocol one by one, also wrong ones."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from blockstore.reader.postgres.door import PostgresDoor
from blockstore.reader.settings import GatewaySettings
from blockstore.service.listening import Listening
from blockstore.world import World
from tests.reader.http.gateways import WRITE, Served, make_lake, serving, settings

PLAIN = Listening(host="127.0.0.1", port=0)


def frame(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def startup(**options: str) -> bytes:
    pairs = b"".join(text(name) + text(value) for name, value in options.items())
    body = struct.pack("!i", 196_608) + pairs + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def query(sql: str) -> bytes:
    return frame(b"Q", text(sql))


def parse(sql: str, name: str = "", types: tuple[int, ...] = ()) -> bytes:
    body = text(name) + text(sql) + struct.pack(f"!h{len(types)}i", len(types), *types)
    return frame(b"P", body)


def bind(values: tuple[bytes | None, ...] = (), name: str = "", form: int = 0) -> bytes:
    cells = b"".join(
        struct.pack("!i", -1) if one is None else struct.pack("!i", len(one)) + one
        for one in values
    )
    head = text("") + text(name) + struct.pack("!h", 0) + struct.pack("!h", len(values))
    return frame(b"B", head + cells + struct.pack("!hh", 1, form))


def describe(kind: bytes, name: str = "") -> bytes:
    return frame(b"D", kind + text(name))


def execute(limit: int = 0) -> bytes:
    return frame(b"E", text("") + struct.pack("!i", limit))


SYNC = frame(b"S")
SERIES = (bind(), describe(b"P"), execute(), SYNC)


@dataclass
class Raw:
    """A connection."""

    port: int
    timeout: float = 20
    key: tuple[int, bytes] = (0, b"")
    _rest: bytes = field(default=b"")

    def __post_init__(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=self.timeout)

    def send(self, *data: bytes) -> None:
        self.socket.sendall(b"".join(data))

    def byte(self) -> bytes:
        return self._take(1)

    def next(self) -> tuple[str, bytes]:
        """The next message. Raises EOFError at the end."""
        kind, length = struct.unpack("!ci", self._take(5))
        return kind.decode(), self._take(length - 4)

    def until_ready(self) -> list[tuple[str, bytes]]:
        """The messages up to that the server is ready."""
        found = [self.next()]
        while found[-1][0] != "Z":
            found.append(self.next())
        return found

    def sign_in(self, token: str = WRITE, database: str = "lake", **options: str) -> None:
        self.send(startup(user="tester", database=database, **options))
        kind, body = self.next()
        if kind == "R" and body == struct.pack("!i", 3):
            self.send(frame(b"p", text(token)))
            kind, body = self.next()
        if kind == "E":
            raise PermissionError(error_of(body))
        while kind != "Z":
            if kind == "K":
                self.key = struct.unpack("!i", body[:4])[0], body[4:]
            kind, body = self.next()

    def ask(self, sql: str) -> list[tuple[str, bytes]]:
        self.send(query(sql))
        return self.until_ready()

    def rows(self, sql: str) -> list[list[str | None]]:
        """The rows of a query. Raises AssertionError for an error."""
        found = self.ask(sql)
        errors = [error_of(body) for kind, body in found if kind == "E"]
        assert not errors, errors
        return [row_of(body) for kind, body in found if kind == "D"]

    def fails(self, sql: str) -> dict[str, str]:
        """The error of a query."""
        errors = [error_of(body) for kind, body in self.ask(sql) if kind == "E"]
        assert len(errors) == 1, errors
        return errors[0]

    def ended(self) -> bool:
        """Whether the server closes the connection, whatever it sends before."""
        try:
            while self.socket.recv(65_536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, size: int) -> bytes:
        while len(self._rest) < size:
            data = self.socket.recv(65_536)
            if not data:
                raise EOFError
            self._rest += data
        found, self._rest = self._rest[:size], self._rest[size:]
        return found


def error_of(body: bytes) -> dict[str, str]:
    """The fields of an error, by their letters."""
    fields = [one.decode() for one in body.split(b"\0") if one]
    return {one[0]: one[1:] for one in fields}


def row_of(body: bytes) -> list[str | None]:
    """The values of a row."""
    (count,) = struct.unpack_from("!h", body)
    values: list[str | None] = []
    at = 2
    for _ in range(count):
        (size,) = struct.unpack_from("!i", body, at)
        at += 4
        values.append(None if size < 0 else body[at : at + size].decode())
        at += max(0, size)
    return values


@dataclass(frozen=True)
class Doors:
    """A gateway with both doors."""

    served: Served
    door: PostgresDoor
    opened: ExitStack

    def raw(self) -> Raw:
        """A connection that is not signed in."""
        return self.opened.enter_context(Raw(self.door.port))

    def client(self, token: str = WRITE, **options: str) -> Raw:
        made = self.raw()
        made.sign_in(token, **options)
        return made


@contextmanager
def both(asked: GatewaySettings, listening: Listening = PLAIN) -> Iterator[Doors]:
    """A gateway with both doors, until the end of the block."""
    with (
        serving(asked) as served,
        PostgresDoor(served.gateway, listening) as door,
        ExitStack() as opened,
    ):
        yield Doors(served, door, opened)


def settings_of(folder: Path, **more: object) -> GatewaySettings:
    return settings(make_lake(folder), folder, **more)


def until(holds: object, *, seconds: float = 10) -> bool:
    """Whether a condition holds soon."""
    assert callable(holds)
    clock = World.real().clock
    end = clock.monotonic_s() + seconds
    while not holds():
        if clock.monotonic_s() > end:
            return False
        clock.sleep(0.02)
    return True
