"""One client's connection: messages that come, bytes that go, TLS, and its end.

Rules:
- What comes is read only as fast as it is used, and what goes is made only as fast as the client
  takes it: memory grows with neither.
- A client that begins a message and does not finish it, or takes nothing, for ``stall_s`` is
  disconnected; one that is idle between two messages is not.
- When the client leaves, what it waits for is stopped.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from blockstore.errors import Unavailable
from blockstore.reader.postgres.wire import TLS, Incoming, Message

_AHEAD = 64 << 10
"""So many bytes are read before they are used."""


class Terminated(Unavailable):
    """Another session of the same caller has ended this one."""


class Gone(Unavailable):
    """The client has left, or was disconnected."""


class Peer(asyncio.Protocol):
    """A connection. For one reader; ``connected`` is called when it begins."""

    def __init__(self, largest: int, stall_s: float, connected: Callable[[Peer], None]) -> None:
        self._largest = largest
        self._stall_s = stall_s
        self._connected = connected
        self._incoming = Incoming(largest)
        self._came = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()
        self._wanted = False
        self._leaves: Callable[[], None] | None = None
        self._ends = False
        self.gone = False
        self.address = ""
        """The client's address, for the log; read once, for a TLS transport that ended has none."""

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        found = transport.get_extra_info("peername")
        self.address = str(found[0]) if found else ""
        self._connected(self)

    def data_received(self, data: bytes) -> None:
        self._incoming.feed(data)
        self._came.set()
        if self._incoming.rest > _AHEAD and not self._wanted:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        self._left()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._left()
        self._lost.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _left(self) -> None:
        self.gone = True
        self._came.set()
        self._writable.set()
        if self._leaves is not None:
            self._leaves()

    # What a session calls

    @property
    def encrypted(self) -> bool:
        """Whether TLS protects it."""
        return self._transport.get_extra_info("ssl_object") is not None

    def started(self) -> None:
        """The first message has come: those that follow have a type."""
        self._incoming.started = True

    def known(self) -> None:
        """The client is known: its messages may be large."""
        self._incoming.known = True

    def end_soon(self) -> None:
        """Let ``next`` raise Terminated from now on."""
        self._ends = True
        self._came.set()

    def on_leaving(self, call: Callable[[], None] | None) -> None:
        """Call this when the client leaves; at once if it has left."""
        self._leaves = call
        if self.gone and call is not None:
            call()

    def look(self) -> None:
        """Let a ``next`` that waits call its ``check``."""
        self._came.set()

    async def next(
        self, *, idle_s: float | None = None, check: Callable[[], None] = lambda: None
    ) -> Message:
        """The next message. ``check`` is called before it, and after each ``look``; what it raises
        is raised. Raises Malformed, Gone, Terminated after ``end_soon``, and TimeoutError if
        nothing comes for ``idle_s``."""
        while True:
            if self._ends:
                raise Terminated("another session of this user has ended this one: connect again")
            check()
            message = self._incoming.take()
            if message is not None:
                return message
            if self.gone:
                raise Gone("the client has left")
            self._came.clear()
            await self._more(idle_s)

    async def _more(self, idle_s: float | None) -> None:
        self._wanted = True
        with suppress(RuntimeError):
            self._transport.resume_reading()
        began = self._incoming.rest > 0
        try:
            await asyncio.wait_for(self._came.wait(), self._stall_s if began else idle_s)
        except TimeoutError:
            if not began:
                raise
            raise Gone(
                f"the client sent a part of a message and nothing more for {self._stall_s:g} s"
            ) from None
        finally:
            self._wanted = False

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait until the client takes those before. Raises Gone."""
        if self.gone:
            raise Gone("the client has left")
        self._transport.write(data)
        try:
            await asyncio.wait_for(self._writable.wait(), self._stall_s)
        except TimeoutError:
            self._transport.abort()
            raise Gone(f"the client read nothing for {self._stall_s:g} s") from None
        if self.gone:
            raise Gone("the client has left")

    async def encrypt(self, context: ssl.SSLContext) -> None:
        """Say that TLS may begin, and begin it. Raises Gone."""
        self._transport.pause_reading()
        if self._incoming.rest:
            # Bytes before TLS could be another's.
            raise Gone("the client sent something before TLS")
        self._transport.write(TLS)
        loop = asyncio.get_running_loop()
        try:
            made = await loop.start_tls(
                self._transport,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=self._stall_s,
            )
        except BaseException as error:
            # asyncio closes the connection, and does not say so to a protocol without TLS.
            self._lost.set()
            if isinstance(error, OSError):
                raise Gone(f"TLS did not begin: {error}") from error
            raise
        if made is None:
            self._lost.set()
            raise Gone("the client has left")
        self._transport = made

    async def end(self, patience_s: float) -> None:
        """Close it once the client took what was sent, or after so long without."""
        self._transport.close()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._lost.wait(), patience_s)
        finally:
            self._transport.abort()
