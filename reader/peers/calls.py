"""Requests to other gateways, over connections that are kept.

Rules:
- A call can be cancelled from any thread at any moment: its connection ends, and the other gateway
  takes that for a client that left.
- The body of a response is read while it arrives; a chunked one that breaks off raises, and is
  never taken for complete.
- A kept connection that fails before a response is replaced by a new one, once: the other gateway
  may have closed it. A new one that fails is the other gateway's failure.
- A machine that is gone is noticed within some 20 seconds, also while its response is awaited.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping

from blockstore.clock import Clock
from blockstore.errors import Unavailable
from blockstore.reader.peers.address import Address

_CONNECT_S = 2.0
_KEPT_S = 4.0
"""Gateways close an idle connection after five seconds."""
_MOST_KEPT = 32
_PIECE = 1 << 18
_MOST_WHOLE = 16 << 20
_KEEPALIVE = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
_UNACKNOWLEDGED_MS = 20_000

_FAILED = (OSError, http.client.HTTPException)


class _Link:
    """One connection."""

    def __init__(self, address: Address, wire: socket.socket, name: str) -> None:
        self.wire = wire
        self.http = http.client.HTTPConnection(name, address.port)
        self.http.sock = wire
        self.used_s = 0.0

    def end(self) -> None:
        """Wake the thread that waits for it."""
        with contextlib.suppress(OSError):
            # Not SSLSocket.shutdown: it takes the session from under the other thread.
            socket.socket.shutdown(self.wire, socket.SHUT_RDWR)

    def close(self) -> None:
        self.http.close()
        self.wire.close()

    @property
    def quiet(self) -> bool:
        """Whether the other side has neither sent anything nor closed it."""
        poll = select.poll()
        try:
            poll.register(self.wire, select.POLLIN)
            return not poll.poll(0)
        except (OSError, ValueError):
            return False


class Connections:
    """The connections to one gateway. ``name`` is what its certificate is for."""

    def __init__(
        self,
        address: Address,
        *,
        name: str,
        tls: ssl.SSLContext | None,
        patience_s: float,
        clock: Clock,
    ) -> None:
        self.address = address
        self._name = name
        self._tls = tls
        self._patience_s = patience_s
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: list[_Link] = []
        self._closed = False

    def new(self) -> _Link:
        """A new connection. Raises OSError."""
        wire = socket.create_connection((self.address.host, self.address.port), _CONNECT_S)
        try:
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in (*_KEEPALIVE, ("TCP_USER_TIMEOUT", _UNACKNOWLEDGED_MS)):
                if hasattr(socket, option):
                    wire.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            if self._tls is not None:
                wire = self._tls.wrap_socket(wire, server_hostname=self._name)
            wire.settimeout(self._patience_s)
        except BaseException:
            wire.close()
            raise
        return _Link(self.address, wire, self._name)

    def kept(self) -> _Link | None:
        """A connection that was used before and is still open."""
        now_s = self._clock.monotonic_s()
        while True:
            with self._lock:
                if not self._kept:
                    return None
                link = self._kept.pop()
            if now_s - link.used_s <= _KEPT_S and link.quiet:
                return link
            link.close()

    def keep(self, link: _Link) -> None:
        """Keep a connection whose response was read to its end."""
        link.used_s = self._clock.monotonic_s()
        with self._lock:
            if not self._closed and len(self._kept) < _MOST_KEPT:
                self._kept.append(link)
                return
        link.close()

    def close(self) -> None:
        """Close those that are not in use."""
        with self._lock:
            self._closed, kept, self._kept = True, self._kept, []
        for link in kept:
            link.close()


class Call:
    """One request, from its begin to its end; one thread at a time, but for ``cancel``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keep: Callable[[_Link], None] = _Link.close
        self._link: _Link | None = None
        self._response: http.client.HTTPResponse | None = None
        self._cancelled = False
        self._ended = False
        self.sent = False
        """Whether the other gateway may have the request."""
        self.first = b""
        """The first piece of the body, or all of it."""

    def begin(
        self,
        to: Connections,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> None:
        """Send the request and wait for the first piece of the response. Raises Unavailable if the
        other gateway does not respond."""
        self._keep = to.keep
        kept = to.kept()
        if kept is not None:
            with contextlib.suppress(*_FAILED):
                self._exchange(kept, method, path, headers or {}, body)
                return
            self._drop()
        try:
            self._exchange(to.new(), method, path, headers or {}, body)
        except _FAILED as error:
            self._drop()
            raise Unavailable(
                f"gateway {to.address.url} does not respond ({type(error).__name__}: {error})"
            ) from error

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._cancelled

    @property
    def status(self) -> int:
        assert self._response is not None, "the call has begun"
        return self._response.status

    def header(self, name: str) -> str | None:
        """A header of the response."""
        assert self._response is not None, "the call has begun"
        return self._response.headers.get(name)

    @property
    def whole(self) -> bool:
        """Whether ``first`` is all of the body."""
        return self._ended

    def pieces(self) -> Iterator[bytes]:
        """The body after its first piece. Raises Unavailable if it breaks off."""
        try:
            while not self._ended:
                piece = self._read()
                if piece:
                    yield piece
        except _FAILED as error:
            raise Unavailable(
                f"the response of another gateway broke off ({type(error).__name__}): retry"
            ) from error

    def cancel(self) -> None:
        """End it, from any thread."""
        with self._lock:
            self._cancelled = True
            if self._link is not None and not self._ended:
                self._link.end()

    def close(self) -> None:
        """Keep or close the connection; allowed twice."""
        response = self._response
        again = self._ended and response is not None and not response.will_close
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            if again and not self._cancelled:
                self._keep(link)
            else:
                link.close()

    def _exchange(
        self, link: _Link, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> None:
        with self._lock:
            self._link = link
            if self._cancelled:
                raise ConnectionAbortedError("it was cancelled")
        self.sent = True
        link.http.request(method, path, body, dict(headers))
        self._response = link.http.getresponse()
        if self._response.chunked:
            self.first = self._read()
            return
        length = self._response.length
        if length is None or length > _MOST_WHOLE:
            raise http.client.HTTPException("a response that is neither chunked nor short")
        self.first = self._response.read()
        self._ended = True

    def _read(self) -> bytes:
        assert self._response is not None, "the call has begun"
        piece = self._response.read1(_PIECE)
        self._ended = not piece
        return piece

    def _drop(self) -> None:
        """Let go of a connection that failed."""
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            link.close()
