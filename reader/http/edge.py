"""The outermost layer of the application: what applies to every request.

Rules:
- Every request has an id: the caller's own if it is a plain word, else a new one. The response and
  the log contain it.
- A body is bounded, and a request whose body stops arriving, or takes very long, is ended. So is
  one whose token ceases to count while its body arrives.
- An error before the first byte is a JSON response. After the first byte the response is left
  unfinished, so that no client takes it for complete.
- The audit log has the line of a request before the last bytes of its response are sent; one whose
  response was not sent to its end was cancelled.
- The access log has one line per request, without query strings (they contain people's data) and
  without tokens.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from blockstore.reader.audit import AuditLog, Outcome
from blockstore.reader.http.job_routes import FORMS
from blockstore.reader.http.problems import STATEMENT, STILL, Problem, of_error, response
from blockstore.reader.http.streaming import in_thread
from blockstore.service.logs import about
from blockstore.world import World

_logger = logging.getLogger("blockstore.access")
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ACCEPTED = 202
_RECEIVED_AT = "/v1/jobs"
_LENGTH_DIGITS = 18
_LEAST_RATE = 64 << 10
"""How many bytes a second a body that takes very long must have on average."""
_FILES = re.compile(r"/v1/tables/.+/files")


class Edge:
    """Middleware around the application. ``observe`` is called for each request with its method,
    status and seconds."""

    def __init__(
        self,
        app: ASGIApp,
        world: World,
        *,
        audit: AuditLog,
        body_bytes: int,
        upload_bytes: int,
        stall_s: float,
        long_s: float,
        observe: Callable[[str, int, float], None] = lambda method, status, seconds: None,
    ) -> None:
        self._app = app
        self._world = world
        self._audit = audit
        self._body_bytes = body_bytes
        self._upload_bytes = upload_bytes
        self._stall_s = stall_s
        self._long_s = long_s
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _ID.fullmatch(given) else self._world.ids.ulid()
        scope["request_id"] = request_id
        status, left = 0, -1
        asked = f"{scope['method']} {scope['path']}"
        statement = self._audit.began("http", request=asked, asked=request_id)
        scope[STATEMENT] = statement

        async def reported(message: Message) -> None:
            nonlocal status, left
            if message["type"] == "http.response.start":
                status = message["status"]
                sent = MutableHeaders(scope=message)
                sent["X-Request-Id"] = request_id
                left = int(sent.get("content-length", "-1"))
            elif message["type"] == "http.response.body":
                size = len(message.get("body", b""))
                statement.gives(size=size)
                left -= size
                # A client that knows the length knows the end by the last byte of it.
                ends = left == 0 or not message.get("more_body", False)
                if statement.counts and ends:
                    done = Outcome.ACCEPTED if status == _ACCEPTED else Outcome.OK
                    await in_thread(partial(statement.end, done))
            await send(message)

        begun = self._world.clock.monotonic_s()
        with about(request=request_id), statement.current():
            try:
                await self._app(scope, self._bounded(scope, headers, receive), reported)
            except Exception as error:  # noqa: BLE001 - the last error handler
                first = _first(error) if status else error
                problem = of_error(first)
                statement.failed(first, str(problem.detail))
                if status:
                    _logger.warning("a response was left unfinished: %s", problem.detail)
                else:
                    await response(problem, request_id)(scope, receive, reported)
            finally:
                statement.end(Outcome.CANCELLED, "the response was not taken to its end")
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
        """``receive`` with the limits on the body's size and time, and on that between two parts.

        The limit for files applies only to POST /v1/jobs and to the files of a table, which receive
        in parts: other routes hold the complete body in memory, before the token is checked.
        """
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        path, posted = scope["path"], scope["method"] == "POST"
        received = posted and path == _RECEIVED_AT and kind in FORMS
        file = posted and _FILES.fullmatch(path) is not None
        limit = self._upload_bytes if received or file else self._body_bytes
        declared = headers.get("content-length", "")
        too_large = declared.isdecimal() and (
            len(declared) > _LENGTH_DIGITS or int(declared) > limit
        )
        read, complete = 0, False
        begun_s = self._world.clock.monotonic_s()

        async def bounded() -> Message:
            nonlocal read, complete
            if too_large:
                raise _too_large(limit)
            if complete:
                return await receive()
            try:
                with anyio.fail_after(self._stall_s):
                    message = await receive()
            except TimeoutError:
                raise Problem(
                    408,
                    f"no more of the body arrived within {self._stall_s:g} s: send it "
                    "without a pause",
                ) from None
            if message["type"] == "http.request":
                read += len(message.get("body", b""))
                complete = not message.get("more_body", False)
                if read > limit:
                    raise _too_large(limit)
                took_s = self._world.clock.monotonic_s() - begun_s
                if took_s > self._long_s and read < took_s * _LEAST_RATE:
                    raise Problem(
                        408,
                        f"only {read:,} bytes of the body arrived in {took_s:,.0f} s: send it "
                        "faster, or less at a time",
                    )
                if STILL in scope:
                    scope[STILL]()
            return message

        return bounded


def _first(error: Exception) -> Exception:
    """The original error after the first byte: the framework wraps an error that it can no longer
    turn into a response."""
    cause = error.__cause__
    return cause if isinstance(error, RuntimeError) and isinstance(cause, Exception) else error


def _too_large(limit: int) -> Problem:
    return Problem(
        413, f"the body is larger than the limit of {limit:,} bytes: send less at a time"
    )
