"""The Postgres door of a gateway: a port, and a session for each connection.

Rules:
- It serves the gateway's own engine, snapshots, limits, tokens and jobs; it has a port and nothing
  else of its own.
- Whatever a client sends, only its own connection ends.
- At most ``MOST`` clients are connected, and at most this door's share of the files that the
  process may open; the next is refused.
- Who cancels what another connection runs, or ends it: ``backends.py``.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from blockstore.errors import Invalid
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.postgres import states, wire
from blockstore.reader.postgres.backends import Backends
from blockstore.reader.postgres.peer import Gone, Peer
from blockstore.reader.postgres.running import Runs
from blockstore.reader.postgres.session import Session
from blockstore.reader.postgres.signing_in import Welcome, first_message, signed_in
from blockstore.reader.postgres.states import Refused, Reported, reported
from blockstore.reader.postgres.variables import assignments
from blockstore.service.certificate import Certificate
from blockstore.service.connections import ConnectionCounts, share
from blockstore.service.listening import Listening
from blockstore.service.serving import bound
from blockstore.service.watched_files import LOOK_S

_logger = logging.getLogger("blockstore.access")

MOST = 1_000
"""So many clients may be connected at once."""
_STARTS_S = 30.0
_ENDS_S = 5.0
_CLOSES_S = 2.0


class PostgresDoor:
    """Serves PostgreSQL's protocol in a thread of its own."""

    def __init__(self, gateway: Gateway, listening: Listening) -> None:
        """Bind the port. Raises Invalid where a token could be read on its way."""
        check_listening(listening)
        self._gateway = gateway
        self._listening = listening
        self.certificate = Certificate(listening)
        self._socket = bound(listening)
        host, port = self._socket.getsockname()[:2]
        self.port: int = port
        self.url = f"postgresql://{f'[{host}]' if ':' in host else host}:{port}"
        """Where it listens."""
        self._backends = Backends()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="postgres", daemon=True)
        gateway.metrics.of_door("postgres", lambda: self.connections)

    @property
    def connected(self) -> int:
        """How many clients are connected."""
        return len(self._tasks)

    @property
    def connections(self) -> ConnectionCounts:
        """The connections of clients as they are now."""
        return ConnectionCounts(
            used=min(self.connected, share(MOST)), limit=share(MOST), refused=self._refused
        )

    @property
    def alive(self) -> bool:
        """Whether it serves."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start to serve."""
        self._thread.start()
        self._started.wait(_STARTS_S)

    def stop(self) -> None:
        """Disconnect the clients and end."""
        if self._loop is not None and self._over is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._over.set)
        if self._thread.ident is not None:
            self._thread.join(_ENDS_S + _CLOSES_S)
        self._socket.close()

    def __enter__(self) -> PostgresDoor:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _serve(self) -> None:
        try:
            asyncio.run(self._until_over())
        except Exception:
            _logger.exception("the Postgres door ended")
        finally:
            self._started.set()

    async def _until_over(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        http = self._gateway.settings.http

        def made() -> Peer:
            return Peer(http.max_body_bytes, http.stall_s, self._connected)

        server = await self._loop.create_server(made, sock=self._socket)
        self._started.set()
        while not self._over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), LOOK_S)
            self.certificate.look()
        server.close()
        for one in self._backends.all():
            one.cancel()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_ENDS_S)

    def _connected(self, peer: Peer) -> None:
        assert self._loop is not None, "the loop runs"
        task = self._loop.create_task(self._client(peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _client(self, peer: Peer) -> None:
        """One connection, from its first byte to its last."""
        reason, patience_s = "closed", self._gateway.settings.http.stall_s
        try:
            await self._session(peer)
        except Gone as error:
            reason = str(error)
        except asyncio.CancelledError:
            reason, patience_s = "the gateway stops", _CLOSES_S
            now = asyncio.get_running_loop().time
            ends = now() + _CLOSES_S
            with suppress(Exception):
                stops = Reported(state=states.SHUTTING_DOWN, message=reason, fatal=True)
                async with asyncio.timeout_at(ends):
                    await peer.send(stops.message_bytes)
            patience_s = max(0.0, ends - now())
        except Exception as error:  # noqa: BLE001 - one connection never ends the others
            found = reported(error, fatal=True)
            reason = found.message
            with suppress(Gone):
                await peer.send(found.message_bytes)
        finally:
            await peer.end(patience_s)
            _logger.info("postgres %s", reason, extra={"client": peer.address})

    async def _session(self, peer: Peer) -> None:
        http = self._gateway.settings.http
        most = share(MOST)
        if len(self._tasks) > most:
            self._refused += 1
            raise Refused(states.TOO_MANY, f"connection limit reached ({most:,}); retry later")
        try:
            async with asyncio.timeout(http.stall_s):
                context = self.certificate.context
                message = await first_message(peer, context, plain=context is None)
                if isinstance(message, wire.CancelRequest):
                    self._backends.cancel_by(message.process, message.secret)
                    return
                welcome = await signed_in(peer, self._gateway, message)
        except TimeoutError:
            raise Gone(f"the client did not sign in within {http.stall_s:g} s") from None
        await self._welcomed(peer, welcome)

    async def _welcomed(self, peer: Peer, welcome: Welcome) -> None:
        own = self._backends.enter(welcome.caller, self._secret(), welcome.user, welcome.database)
        runs = Runs(self._gateway, own, self._backends)
        loop = asyncio.get_running_loop()
        own.cancel = runs.cancel
        own.end = lambda: _soon(loop, peer.end_soon)
        try:
            await self._served(peer, welcome, runs)
        finally:
            self._backends.leave(own)

    async def _served(self, peer: Peer, welcome: Welcome, runs: Runs) -> None:
        notices = [
            notice
            for name, value in assignments(welcome.options)
            if (notice := runs.variables.first(name, value))
        ]
        settings = (wire.setting(*one) for one in runs.variables.reported())
        hello = [wire.SIGNED_IN, *settings, *map(wire.problem_notice, notices)]
        hello += [wire.key(runs.own.process, runs.own.secret), wire.ready("I")]
        await peer.send(b"".join(hello))
        await Session(peer, runs).run()

    def _secret(self) -> bytes:
        return bytes.fromhex(self._gateway.world.ids.token())[:4]


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call this in the thread of the loop."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


def check_listening(listening: Listening) -> None:
    """Raise Invalid for an address where a token could be read on its way."""
    if listening.tls_cert is None and not listening.loopback:
        raise Invalid(
            f"the Postgres port of {listening.host} would carry tokens without TLS: set tls_cert "
            "and tls_key in [http], or listen on 127.0.0.1"
        )
