"""The Flight SQL server of a gateway: its address, its certificate, its start and its end."""

from __future__ import annotations

import errno
import logging
import socket
import threading
from pathlib import Path

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.extras import missing
from blockstore.reader.http.gateway import Gateway
from blockstore.service.connections import ConnectionCounts
from blockstore.service.listening import Listening

try:
    from google.protobuf import descriptor_pool as _descriptor_pool  # noqa: F401
except ModuleNotFoundError:
    absent = ModuleNotFoundError("protobuf", name="protobuf")
    raise missing(absent, "the Flight SQL door", "flight") from None

from pyarrow import flight

from blockstore.reader.flight.calls import Calls
from blockstore.reader.flight.connections import Connections, hang_up
from blockstore.reader.flight.server import FlightSql

_logger = logging.getLogger(__name__)

_GRACE_S = 5.0
"""How long calls that were ended may take until the door gives them up."""


class FlightDoor:
    """Serves a gateway by Flight SQL inside a ``with``."""

    def __init__(self, gateway: Gateway, listening: Listening) -> None:
        self._gateway = gateway
        self._listening = listening
        self._calls: Calls | None = None
        self._server: FlightSql | None = None
        self._connections: Connections | None = None
        self.url = ""
        """The URL, with the port that was bound; once it serves."""

    @property
    def running(self) -> int:
        """How many calls there are."""
        return 0 if self._calls is None else self._calls.running()

    @property
    def connections(self) -> ConnectionCounts:
        """The connections of clients as they are now."""
        return ConnectionCounts() if self._connections is None else self._connections.counts()

    def __enter__(self) -> FlightDoor:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> str:
        """Start to serve; return the URL. Raises Invalid for an address or a certificate that
        cannot be used."""
        listening = self._listening
        _check_free(listening)
        scheme = "grpc" if listening.tls_cert is None else "grpc+tls"
        host = f"[{listening.host}]" if ":" in listening.host else listening.host
        self._calls = Calls(self._gateway, self._gateway.metrics.of_flight_call)
        try:
            self._server = FlightSql(
                self._gateway,
                self._calls,
                f"{scheme}://{host}:{listening.port}",
                _certificates(listening),
            )
        except (pa.ArrowException, flight.FlightError, OSError) as error:
            self._calls.close()
            raise Invalid(
                f"Flight SQL cannot be served at {listening.host}:{listening.port} "
                f"({' '.join(str(error).split())}): check the address and the certificate"
            ) from error
        port = self._server.port
        self._connections = Connections(port, self._calls.peers)
        self._calls.often(self._connections.look)
        self._gateway.metrics.of_door("flight", lambda: self.connections)
        self.url = f"{scheme}://{host}:{port}"
        return self.url

    def stop(self) -> None:
        """End the calls and free the port; a client that takes nothing is disconnected after the
        grace period."""
        if self._calls is None or self._server is None:
            return
        self._calls.close()
        if self._connections is not None:
            self._connections.close()
        ending = threading.Thread(target=self._server.shutdown, name="flight-end", daemon=True)
        ending.start()
        ending.join(_GRACE_S)
        if ending.is_alive():
            _logger.warning("a client of Flight SQL takes nothing and is disconnected")
            hang_up(self._server.port)
            ending.join(_GRACE_S)


def _check_free(listening: Listening) -> None:
    """Raise Invalid if the port is in use: gRPC would share it with the process that has it."""
    if not listening.port:
        return
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listening.host, listening.port))
        except OSError as error:
            used = error.errno == errno.EADDRINUSE
            why = "is in use by another process" if used else f"cannot be used ({error})"
            raise Invalid(
                f"port {listening.port} of {listening.host} {why}: choose another for Flight SQL"
            ) from error


def _certificates(listening: Listening) -> list[tuple[bytes, bytes]] | None:
    if listening.tls_cert is None or listening.tls_key is None:
        return None
    return [(_bytes_of(listening.tls_cert), _bytes_of(listening.tls_key))]


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Invalid(f"{path} cannot be read ({error.strerror}): check the path") from error
