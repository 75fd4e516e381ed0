"""The address, port and TLS files of a process's server, and their configuration keys."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blockstore.errors import Invalid
from blockstore.service import kinds
from blockstore.service.config import Key

_LAST_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """An address, or none to serve nothing. Port 0 selects a free port."""

    host: str
    port: int
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= _LAST_PORT:
            raise Invalid(f"the port is {self.port}, expected 0 (a free one) to {_LAST_PORT}")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise Invalid("[http] has only one of tls_cert and tls_key: set both or none")

    @property
    def off(self) -> bool:
        """Whether nothing is served."""
        return not self.host

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def scheme(self) -> str:
        return "http" if self.tls_cert is None else "https"


def http_keys(listen: str) -> tuple[Key, ...]:
    """The keys of a section that ``listening`` builds."""
    return (
        Key(
            name="listen",
            default=listen,
            read=address,
            sentence='The address and port, such as "0.0.0.0:8081" or "[::]:8081"; empty to serve '
            "nothing.",
        ),
        Key(
            name="tls_cert",
            default="",
            read=kinds.path,
            sentence="The certificate chain (PEM) for HTTPS; empty for plain HTTP.",
        ),
        Key(
            name="tls_key",
            default="",
            read=kinds.path,
            sentence="The private key (PEM) of the certificate.",
        ),
    )


def listening(*, listen: tuple[str, int], tls_cert: Path | None, tls_key: Path | None) -> Listening:
    """Build the value of a section with ``http_keys``."""
    return Listening(host=listen[0], port=listen[1], tls_cert=tls_cert, tls_key=tls_key)


def address(value: Any, name: str) -> tuple[str, int]:
    """The host and the port of a text; an empty host for an empty text. Raises Invalid."""
    given = kinds.text(value, name)
    if not given:
        return "", 0
    host, colon, port = given.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not colon or not host or not port.isdecimal() or int(port) > _LAST_PORT:
        raise Invalid(
            f'{name} is {value!r}, expected an address and a port such as "127.0.0.1:8081"'
        )
    return host, int(port)
