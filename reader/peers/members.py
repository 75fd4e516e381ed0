"""Who is in a group of gateways, and which of them are ready.

Rules:
- Members come from the configuration alone: a list of URLs, or all addresses of one DNS name, which
  is looked up again. This gateway is always a member.
- Another gateway counts once it has said that it is ready. One that failed does not count for
  ``retry_s``, and from then on until it says that it is ready: queries never wait for an attempt.
- One that could not answer a query is asked at once whether it is ready, and counts meanwhile.
- A name that cannot be looked up changes nothing: the members of before remain.
- Only ``look`` waits for the network. It is for one thread; all else is for any.
"""

from __future__ import annotations

import logging
import math
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from blockstore.reader.peers.address import Address, of_host
from blockstore.world import World

_logger = logging.getLogger(__name__)

_LONGEST_NAP_S = 1.0

Resolve = Callable[[str, int], Iterable[str]]
"""All addresses of a host and a port. Raises OSError."""
IsReady = Callable[[Address], bool]
"""Whether the gateway at an address says that it is ready. Raises nothing."""


@dataclass(slots=True)
class _Other:
    """Another gateway; guarded by the lock of its ``Members``."""

    address: Address
    ready: bool = False
    due_s: float = -math.inf
    """When it is asked whether it is ready; infinite if nothing is in doubt."""


class Members:
    """The gateways of a group. ``start`` keeps them current; without it, ``look`` does once."""

    def __init__(
        self,
        own: Address,
        urls: Iterable[Address],
        *,
        dns: Address | None,
        lookup_s: float,
        retry_s: float,
        world: World,
        is_ready: IsReady,
        resolve: Resolve | None = None,
    ) -> None:
        self.own = own
        self._dns = dns
        self._lookup_s = lookup_s
        self._retry_s = retry_s
        self._world = world
        self._is_ready = is_ready
        self._resolve = resolve or addresses
        self._lookup_due_s = -math.inf
        self._unresolved = False
        self._strange: frozenset[Address] = frozenset()
        self._lock = threading.Lock()
        self._others = {one.url: _Other(one) for one in urls if one != own}
        self._over = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def ready(self) -> tuple[str, ...]:
        """The URLs of this gateway and of the others that are ready."""
        with self._lock:
            return (self.own.url, *(url for url, one in self._others.items() if one.ready))

    def counts(self) -> tuple[int, int]:
        """How many others are ready, and how many are left out."""
        with self._lock:
            ready = sum(one.ready for one in self._others.values())
            return ready, len(self._others) - ready

    def address(self, url: str) -> Address | None:
        """The address of another member; None for one that has left."""
        with self._lock:
            found = self._others.get(url)
            return None if found is None else found.address

    def failed(self, url: str, why: str) -> None:
        """It did not answer: it is left out."""
        with self._lock:
            other = self._others.get(url)
            if other is None:
                return
            was, other.ready = other.ready, False
            other.due_s = self._world.clock.monotonic_s() + self._retry_s
        if was:
            _logger.warning("gateway %s is left out: %s", url, why)

    def doubted(self, url: str) -> None:
        """It could not answer a query: ask it soon whether it is ready."""
        with self._lock:
            other = self._others.get(url)
            if other is None or not other.ready or other.due_s < math.inf:
                return
            other.due_s = self._world.clock.monotonic_s()
        self._wake.set()

    def look(self) -> None:
        """Look the name up, and ask the gateways that are left out or in doubt, where it is
        time."""
        now_s = self._world.clock.monotonic_s()
        if self._dns is not None and now_s >= self._lookup_due_s:
            self._lookup_due_s = now_s + self._lookup_s
            self._look_up(self._dns)
        with self._lock:
            due = [one for one in self._others.values() if one.due_s <= now_s]
        self._world.pool.map(self._ask, due)

    def start(self) -> None:
        """Keep the members current until ``close``."""
        self._thread = threading.Thread(target=self._run, name="peers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; do not wait long for a look that hangs."""
        self._over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def _run(self) -> None:
        nap_s = min(_LONGEST_NAP_S, self._retry_s, self._lookup_s)
        while not self._over.is_set():
            try:
                self.look()
            except Exception:
                _logger.exception("a look at the other gateways failed, and is repeated")
            self._wake.wait(nap_s)
            self._wake.clear()

    def _ask(self, other: _Other) -> None:
        began_s = self._world.clock.monotonic_s()
        ready = self._is_ready(other.address)
        with self._lock:
            if other.due_s > began_s and other.due_s < math.inf:
                return  # it failed meanwhile, and is asked again later
            was, other.ready = other.ready, ready
            later_s = self._world.clock.monotonic_s() + self._retry_s
            other.due_s = math.inf if ready else later_s
        if was != ready:
            said = "is ready" if ready else "is left out: it is not ready"
            _logger.info("gateway %s %s", other.address.url, said)

    def _look_up(self, dns: Address) -> None:
        try:
            found = {
                of_host(dns.scheme, one, dns.port) for one in self._resolve(dns.host, dns.port)
            }
        except OSError as error:
            if not self._unresolved:
                _logger.warning("%s cannot be looked up: %s", dns.host, error)
            self._unresolved = True
            return
        self._unresolved = False
        strange = frozenset(one for one in found if one.plain and one.public)
        if strange - self._strange:
            _logger.warning(
                "%s has addresses of the internet, %s: nothing is sent there without TLS",
                dns.host,
                ", ".join(sorted(one.url for one in strange)),
            )
        self._strange = strange
        wanted = {one.url: one for one in found - strange - {self.own}}
        with self._lock:
            before = set(self._others)
            self._others = {
                url: self._others.get(url) or _Other(one) for url, one in sorted(wanted.items())
            }
        if before != set(wanted):
            _logger.info(
                "the other gateways are %s", ", ".join(sorted(wanted)) or "none at present"
            )


def addresses(host: str, port: int) -> set[str]:
    """All addresses of a name. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return {str(one[4][0]) for one in found}
