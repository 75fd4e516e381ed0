"""A gateway with its three doors open and an audit log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from blockstore.reader.flight.door import FlightDoor
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Token
from blockstore.reader.postgres.door import PostgresDoor
from blockstore.reader.settings import AuditSettings, GatewaySettings
from blockstore.world import World
from tests.reader.flight.doors import Client
from tests.reader.http.gateways import TOKENS, Served, serving
from tests.reader.postgres.raw import PLAIN, Raw


@dataclass(frozen=True)
class Three:
    """The doors, and what the log has."""

    served: Served
    flight: FlightDoor
    postgres: PostgresDoor
    log: Path

    @property
    def gateway(self) -> Gateway:
        return self.served.gateway

    def raw(self, token: str) -> Raw:
        """A signed-in connection of PostgreSQL's protocol."""
        made = Raw(self.postgres.port)
        try:
            made.sign_in(token)
        except BaseException:
            made.close()
            raise
        return made

    def client(self, token: str) -> Client:
        return Client(self.flight.url, token)

    def lines(self) -> list[dict[str, Any]]:
        """What the log has now."""
        return lines_of(self.log)

    def about(self, mark: str, count: int = 1) -> list[dict[str, Any]]:
        """The lines whose statement has a mark, once there are so many; at most ten seconds."""
        clock = World.real().clock
        found: list[dict[str, Any]] = []
        for _ in range(200):
            found = [one for one in self.lines() if mark in (one.get("statement") or "")]
            if len(found) >= count:
                return found
            clock.sleep(0.05)
        return found

    def tokens(self, name: str, **changed: Any) -> None:
        """Exchange the tokens: that of a name is changed."""
        self.gateway.gate.exchange(
            [replace(one, **changed) if one.name == name else one for one in TOKENS]
        )

    def without(self, name: str) -> None:
        """Exchange the tokens: that of a name is removed."""
        rest: list[Token] = [one for one in TOKENS if one.name != name]
        self.gateway.gate.exchange(rest)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a log."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@contextmanager
def three(asked: GatewaySettings, log: Path) -> Iterator[Three]:
    """The gateway, until the end of the block."""
    asked = replace(asked, audit=AuditSettings(file=log))
    with (
        serving(asked) as served,
        FlightDoor(served.gateway, PLAIN) as flight,
        PostgresDoor(served.gateway, PLAIN) as postgres,
    ):
        yield Three(served, flight, postgres, log)
