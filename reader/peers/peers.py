"""The other gateways of a group, as one of them uses them.

Rules:
- The owner of a query is the owner of one of its tables: the largest by what is known here, by
  powers of four so that gateways agree, and among equals the first by name.
- The key of a table is its name: the gateways of a group serve the same tables by the same names,
  also where their URLs are spelled differently.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable, Collection

from blockstore.errors import Invalid, Unavailable
from blockstore.reader.peers.address import Address
from blockstore.reader.peers.calls import Call, Connections
from blockstore.reader.peers.group import PeerSettings
from blockstore.reader.peers.members import Members, Resolve
from blockstore.reader.peers.rendezvous import owner_of
from blockstore.world import World

_logger = logging.getLogger(__name__)

_PROBE_S = 2.0


class Peers:
    """Safe to share between threads. ``patience_s`` is how long a response may take to begin, and
    to go on."""

    def __init__(
        self,
        settings: PeerSettings,
        world: World,
        *,
        patience_s: float,
        resolve: Resolve | None = None,
    ) -> None:
        """Raises Invalid for certificates that cannot be read."""
        own = settings.own
        assert own is not None, "a group of gateways is configured"
        self._dns = settings.dns
        self._world = world
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._connections: dict[str, Connections] = {}
        self._tls = _context(settings)
        self.members = Members(
            own,
            settings.urls,
            dns=settings.dns,
            lookup_s=settings.lookup_s,
            retry_s=settings.retry_s,
            world=world,
            is_ready=self._is_ready,
            resolve=resolve,
        )

    def start(self) -> None:
        """Learn which gateways are ready, until ``close``."""
        self.members.start()

    def close(self) -> None:
        """Close what is not in use."""
        self.members.close()
        with self._lock:
            connections, self._connections = list(self._connections.values()), {}
        for one in connections:
            one.close()

    def owner(self, tables: Collection[str], size: Callable[[str], int]) -> str | None:
        """The gateway that answers queries of these tables, if it is another one. ``size`` returns
        the bytes of a table, as far as they are known here."""
        if not tables:
            return None
        ready = self.members.ready()
        if len(ready) == 1:
            return None
        found = owner_of(leading(tables, size), ready)
        return None if found == self.members.own.url else found

    def begin(self, call: Call, url: str, path: str, headers: dict[str, str], body: bytes) -> None:
        """Send a POST to another gateway and wait for its response to begin. Raises Unavailable
        where it does not respond; unless the call was cancelled, the gateway is left out then."""
        to = self._to(url)
        try:
            call.begin(to, "POST", path, headers=headers, body=body)
        except Unavailable as error:
            if not call.cancelled:
                self.members.failed(url, str(error))
            raise

    def _to(self, url: str) -> Connections:
        address = self.members.address(url)
        if address is None:
            raise Unavailable(f"gateway {url} has left")
        with self._lock:
            found = self._connections.get(url)
            if found is not None:
                return found
            found = self._connections[url] = self._made(address, self._patience_s)
            left = [one for one in self._connections if self.members.address(one) is None]
            gone = [self._connections.pop(one) for one in left]
        for one in gone:  # members come and go for months
            one.close()
        return found

    def _made(self, address: Address, patience_s: float) -> Connections:
        return Connections(
            address,
            name=address.host if self._dns is None else self._dns.host,
            tls=self._tls if address.scheme == "https" else None,
            patience_s=patience_s,
            clock=self._world.clock,
        )

    def _is_ready(self, address: Address) -> bool:
        call, connections = Call(), self._made(address, _PROBE_S)
        try:
            call.begin(connections, "GET", "/-/ready")
            return call.status == 200
        except Unavailable as error:
            _logger.debug("%s", error)
            return False
        finally:
            connections.close()
            call.close()


def leading(tables: Collection[str], size: Callable[[str], int]) -> str:
    """The table of a query whose owner answers it."""
    if len(tables) == 1:
        return next(iter(tables))
    return min(tables, key=lambda name: (-(size(name).bit_length() // 2), name))


def _context(settings: PeerSettings) -> ssl.SSLContext | None:
    given = (*settings.urls, *([] if settings.dns is None else [settings.dns]))
    if all(one.scheme == "http" for one in given):
        return None
    try:
        return ssl.create_default_context(cafile=settings.tls_ca)
    except (OSError, ssl.SSLError) as error:
        raise Invalid(f"tls_ca of [peers] cannot be read: {settings.tls_ca}: {error}") from error
