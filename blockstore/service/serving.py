"""Serving HTTP: one ASGI application by uvicorn in a thread of its own, with probes and careful
headers.

Rules:
- The port is bound before the thread starts: one that is taken is an error of the caller, and port
  0 takes a free one.
- ``stop`` lets answers that are under way end, for as long as it is told, and comes back.
- Every answer carries the headers of ``SecurityHeaders``; a route that sets one of them itself
  wins.
- The probes answer 200 or 503 with the reasons; nothing that has stopped for good calls itself
  ready.
"""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from blockstore.errors import Invalid
from blockstore.service.listening import Listening

_logger = logging.getLogger(__name__)

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src "
    "'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a page may load: its own files and nothing else."""

_HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
GRACE_S = 5.0
"""So long answers under way may take to end, unless a caller says otherwise."""

CLOSES_S = 5.0
"""So much longer ``Server.stop`` waits for its thread."""

_HSTS = "max-age=31536000"


class SecurityHeaders:
    """Middleware: these headers on every answer that does not say otherwise.

    ``extra`` adds or replaces.
    """

    def __init__(self, app: ASGIApp, extra: Mapping[str, str] | None = None) -> None:
        self._app = app
        self._headers = {**_HEADERS, **(extra or {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(self._headers)
        if scope.get("scheme") == "https":
            headers.setdefault("Strict-Transport-Security", _HSTS)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in headers.items():
                    found.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, guarded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether all is well, and if not, why: one sentence each."""

    reasons: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.reasons


def health_routes(healthy: Callable[[], Health], ready: Callable[[], Health]) -> list[Route]:
    """``/-/healthy``: the process works and need not be restarted;

    ``/-/ready``: it does what it is there for.
    """

    def route(path: str, ask: Callable[[], Health]) -> Route:
        def answer(_: Request) -> Response:
            health = ask()
            body = {"ok": health.ok, "reasons": list(health.reasons)}
            return JSONResponse(body, status_code=200 if health.ok else 503)

        return Route(path, answer, methods=["GET"])

    return [route("/-/healthy", healthy), route("/-/ready", ready)]


class Server:
    """An application behind an address, in a thread of its own."""

    def __init__(self, app: ASGIApp, listening: Listening, *, grace_s: float = GRACE_S) -> None:
        self._listening = listening
        self._socket = _bound(listening)
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{listening.scheme}://{shown}:{port}"
        """Where it is reached, with the port that was taken."""
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            ws="none",
            http="h11",
            loop="asyncio",
            server_header=False,
            date_header=True,
            timeout_graceful_shutdown=max(1, round(grace_s)),
            ssl_certfile=listening.tls_cert,
            ssl_keyfile=listening.tls_key,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            self._socket.close()
            raise Invalid(
                f"the certificate {listening.tls_cert} or its key {listening.tls_key} cannot be "
                f"used: {error}"
            ) from error
        self._server = uvicorn.Server(config)
        self._grace_s = grace_s
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)
        self.failed: BaseException | None = None
        """What ended the server, if it ended by itself."""

    def start(self) -> str:
        """Serve; answers the URL."""
        self._thread.start()
        return self.url

    def stop(self) -> None:
        """End what is under way, then end; comes back once the port is free, or the grace is
        over."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(self._grace_s + CLOSES_S)
        self._socket.close()

    @property
    def alive(self) -> bool:
        """Whether it serves."""
        return self._thread.is_alive()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except BaseException as error:
            self.failed = error
            _logger.exception("the HTTP server ended")


def _bound(listening: Listening) -> socket.socket:
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((listening.host, listening.port))
        made.listen(128)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise Invalid(
                f"port {listening.port} of {listening.host} is taken: another process listens "
                "there; end it, or choose another"
            ) from error
        raise Invalid(
            f"{listening.host}:{listening.port} cannot be listened on ({error}): choose another "
            "address"
        ) from error
    made.set_inheritable(False)
    return made
