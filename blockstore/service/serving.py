"""HTTP: an ASGI application served by uvicorn in a thread, with probes and security headers.

Rules:
- The port is bound before the thread starts, so the caller gets the error if it is in use; port 0
  selects a free one.
- ``stop`` waits for running responses, for at most the grace period. Idle connections end at once.
- What an idle connection may cost: ``patience.py`` and ``connections.py``.
- Every response has the headers of ``SecurityHeaders``; a route may override them.
- The probes respond with 200 and perhaps warnings, or with 503 and the reasons; a process that has
  stopped permanently is never ready.
"""

from __future__ import annotations

import errno
import logging
import socket
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
from blockstore.service.certificate import Certificate
from blockstore.service.connections import Accepting, ConnectionCounts
from blockstore.service.listening import Listening
from blockstore.service.patience import HEAD_S, KEPT_S, patient
from blockstore.service.watched_files import LOOK_S

_logger = logging.getLogger(__name__)

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src "
    "'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A page may load its own files and nothing else."""

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
"""How long running responses may take at the end, by default."""

CLOSES_S = 5.0
"""How much longer ``Server.stop`` waits for its thread."""

_HSTS = "max-age=31536000"

_FULL = b'{"error":"unavailable","message":"connection limit reached; retry in a few seconds"}'
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(_FULL), _FULL)
)
"""What a connection beyond the limit gets; with TLS, which cannot begin for it, nothing."""


class SecurityHeaders:
    """Middleware that adds these headers to every response that does not set them. ``extra`` adds
    to them or replaces some."""

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
    """The state of a process: the reasons why it is not well, one sentence each."""

    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What is wrong though it can do its work."""

    @property
    def ok(self) -> bool:
        return not self.reasons


def health_routes(healthy: Callable[[], Health], ready: Callable[[], Health]) -> list[Route]:
    """``/-/healthy``: the process needs no restart. ``/-/ready``: it can do its work. Both are
    called on the event loop, and must not block: a probe waits for no request."""

    def route(path: str, ask: Callable[[], Health]) -> Route:
        async def answer(_: Request) -> Response:
            health = ask()
            body: dict[str, object] = {"ok": health.ok, "reasons": list(health.reasons)}
            if health.warnings:
                body["warnings"] = list(health.warnings)
            return JSONResponse(body, status_code=200 if health.ok else 503)

        return Route(path, answer, methods=["GET"])

    return [route("/-/healthy", healthy), route("/-/ready", ready)]


class Server:
    """An application that is served at an address, in a thread of its own."""

    def __init__(
        self,
        app: ASGIApp,
        listening: Listening,
        *,
        grace_s: float = GRACE_S,
        kept_s: int = KEPT_S,
        head_s: float = HEAD_S,
    ) -> None:
        self.certificate = Certificate(listening)
        refusal = b"" if self.certificate.context else _REFUSAL
        self._socket = Accepting(bound(listening), refusal)
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{listening.scheme}://{shown}:{port}"
        """The URL, with the port that was bound."""
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            ws="none",
            http=patient(head_s),
            loop="asyncio",
            server_header=False,
            date_header=True,
            timeout_keep_alive=kept_s,
            timeout_graceful_shutdown=max(1, round(grace_s)),
            timeout_notify=LOOK_S,
            callback_notify=self._look,
        )
        config.load()
        # Its own context could not be given another certificate later.
        config.ssl = self.certificate.context
        self._server = uvicorn.Server(config)
        self._grace_s = grace_s
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)
        self.failed: BaseException | None = None
        """The error that ended the server, if any."""

    def start(self) -> str:
        """Start to serve; return the URL."""
        self._thread.start()
        return self.url

    def stop(self) -> None:
        """Finish running responses and end; return when the port is free or the grace period is
        over."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(self._grace_s + CLOSES_S)
        self._socket.close()

    @property
    def alive(self) -> bool:
        """Whether it serves."""
        return self._thread.is_alive()

    @property
    def connections(self) -> ConnectionCounts:
        """The connections of clients as they are now."""
        return self._socket.counts

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _look(self) -> None:
        self.certificate.look()

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except BaseException as error:
            self.failed = error
            _logger.exception("the HTTP server ended")


def bound(listening: Listening) -> socket.socket:
    """A socket that listens at an address. Raises Invalid if that is not possible."""
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    # With its protocol named, asyncio sends the pieces of an answer at once (TCP_NODELAY).
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((listening.host, listening.port))
        made.listen(128)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise Invalid(
                f"port {listening.port} of {listening.host} is in use by another process: stop it, "
                "or choose another port"
            ) from error
        raise Invalid(
            f"cannot listen on {listening.host}:{listening.port} ({error}): choose another address"
        ) from error
    made.set_inheritable(False)
    return made
