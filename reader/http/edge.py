"""The outermost layer of the application: what holds for every request, whatever its route.

Rules:
- Every request has an id: the caller's own if it is a plain word, else a fresh one; it stands in
  the answer and the log.
- Bodies are bounded, and a body that does not come ends its request.
- An error before the first byte is one JSON answer. One after it leaves the answer unfinished, so
  that no client takes it for whole.
- One line of access log a request, without query strings (they hold people's data) and without
  tokens.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from blockstore.reader.http.problems import Problem, of_error, response
from blockstore.service.logs import about
from blockstore.world import World

_logger = logging.getLogger("blockstore.access")
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_UPLOADS = ("text/csv", "text/tab-separated-values")
_RECEIVED_AT = "/v1/jobs"


class Edge:
    """Middleware around the whole application.

    ``observe`` is told of each request: method, status, seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        world: World,
        *,
        body_bytes: int,
        upload_bytes: int,
        stall_s: float,
        observe: Callable[[str, int, float], None] = lambda method, status, seconds: None,
    ) -> None:
        self._app = app
        self._world = world
        self._body_bytes = body_bytes
        self._upload_bytes = upload_bytes
        self._stall_s = stall_s
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _ID.fullmatch(given) else self._world.ids.ulid()
        scope["request_id"] = request_id
        status = 0

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        begun = self._world.clock.monotonic_s()
        with about(request=request_id):
            try:
                await self._app(scope, self._bounded(scope, headers, receive), told)
            except Exception as error:  # noqa: BLE001 - the last layer answers every error
                problem = of_error(_first(error) if status else error)
                if status:
                    _logger.warning("an answer was left unfinished: %s", problem.detail)
                else:
                    await response(problem, request_id)(scope, receive, told)
            finally:
                seconds = self._world.clock.monotonic_s() - begun
                self._observe(scope["method"], status, seconds)
                _logger.info(
                    "%s %s %s",
                    scope["method"],
                    scope["path"],
                    status or "aborted",
                    extra={"seconds": round(seconds, 3), "caller": scope.get("caller", "")},
                )

    def _bounded(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        """Bodies up to the limit of their kind, and no longer between two parts than the patience.

        Files are large where they are received in parts alone: any other route holds its body
        whole, and before it asks for a token.
        """
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        received = scope["method"] == "POST" and scope["path"] == _RECEIVED_AT
        limit = self._upload_bytes if received and kind in _UPLOADS else self._body_bytes
        declared = headers.get("content-length", "")
        too_large = declared.isdecimal() and int(declared) > limit
        read, whole = 0, False

        async def bounded() -> Message:
            nonlocal read, whole
            if too_large:
                raise _too_large(limit)
            if whole:
                return await receive()
            try:
                with anyio.fail_after(self._stall_s):
                    message = await receive()
            except TimeoutError:
                raise Problem(
                    408,
                    f"nothing more of the body came for {self._stall_s:g} s: send it without a "
                    "pause",
                ) from None
            if message["type"] == "http.request":
                read += len(message.get("body", b""))
                whole = not message.get("more_body", False)
                if read > limit:
                    raise _too_large(limit)
            return message

        return bounded


def _first(error: Exception) -> Exception:
    """What went wrong after the first byte: the framework wraps an error that it can answer no more
    into one of its own."""
    cause = error.__cause__
    return cause if isinstance(error, RuntimeError) and isinstance(cause, Exception) else error


def _too_large(limit: int) -> Problem:
    return Problem(
        413, f"the body has more than {limit:,} bytes, which is the limit: send less at a time"
    )
