"""Responses that are made while the client reads them.

Rules:
- The first piece is made before the status is sent: an error until then has a response of its own.
- A piece is made only after the client took the one before: memory grows neither with the result
  nor with a slow client.
- A client that takes nothing for ``stall_s``, or is not done after ``answer_s``, is disconnected,
  and its query is closed.
- An error after the first byte leaves the chunked response without its end. HTTP/1.0 has no chunks,
  so there the complete response is first written to disk, up to a limit, and then sent with its
  length; one whose length is known is sent as it is made.
- A client that disconnects ends its query: that is not an error of the gateway.
- The rows are always closed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import IO, Protocol, TypeVar

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from blockstore.reader.http.problems import Problem
from blockstore.reader.query.runners.failures import FULL, is_full

T = TypeVar("T")

_THREADS = 512
"""Concurrent calls that wait for queries; admission keeps them far below."""
_SPOOLED = 8 << 20
_END = object()


class Patience:
    """How long the gateway waits for a client."""

    def __init__(self, stall_s: float, answer_s: float) -> None:
        self.stall_s = stall_s
        self.answer_s = answer_s


class Held(Protocol):
    """What a response holds until it ends."""

    def cancel(self) -> None: ...

    def close(self) -> None: ...


async def in_thread(call: Callable[[], T]) -> T:
    """Run a call that may wait long in a thread of a separate pool."""
    return await to_thread.run_sync(call, limiter=_limiter())


_of_loop: RunVar[anyio.CapacityLimiter | None] = RunVar("blockstore_queries", None)


def _limiter() -> anyio.CapacityLimiter:
    """One per event loop: queries never use the threads of small requests."""
    found = _of_loop.get(None)
    if found is None:
        found = anyio.CapacityLimiter(_THREADS)
        _of_loop.set(found)
    return found


async def while_waited_for(receive: Receive, stopper: Held, call: Callable[[], T]) -> T:
    """Return the result of a call that may take long; stop it if the client disconnects."""
    found: list[T] = []

    async def make() -> None:
        found.append(await in_thread(call))

    await _while_there(receive, stopper, make)
    if not found:
        raise Problem(408, "the client disconnected before the first row")
    return found[0]


async def first_piece(receive: Receive, pieces: Iterator[bytes], held: Held) -> bytes:
    """The first piece; ``held`` is closed if there is none or the client disconnects."""
    found: list[bytes] = []

    async def make() -> None:
        found.append(await in_thread(lambda: next(pieces)))

    try:
        await _while_there(receive, held, make)
        if not found:
            raise Problem(408, "the client disconnected before the first row")
    except BaseException:
        held.cancel()
        with anyio.CancelScope(shield=True):
            await in_thread(held.close)
        raise
    return found[0]


async def _while_there(receive: Receive, held: Held, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work; if the client disconnects, stop it and ignore its errors."""
    failed: list[Exception] = []
    gone = False
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            nonlocal gone
            while (await receive())["type"] != "http.disconnect":
                pass
            gone = True
            held.cancel()
            group.cancel_scope.cancel()

        async def run() -> None:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - raised again below, outside the group
                failed.append(error)
            group.cancel_scope.cancel()

        group.start_soon(watch)
        group.start_soon(run)
    if failed and not gone:
        raise failed[0]


class Streamed(Response):
    """Sends the pieces of a blocking iterator. ``held`` is cancelled if the client disconnects, and
    always closed."""

    def __init__(
        self,
        first: bytes,
        pieces: Iterator[bytes],
        held: Held,
        patience: Patience,
        *,
        media_type: str | None,
        headers: Mapping[str, str],
        status: int = 200,
        whole_bytes: int = 0,
    ) -> None:
        """``whole_bytes``: how many bytes are written to disk for HTTP/1.0, at most."""
        self._first = first
        self._pieces = pieces
        self._held = held
        self._patience = patience
        self._whole_bytes = whole_bytes
        self.status_code = status
        self.media_type = media_type
        self.background = None
        self.init_headers(dict(headers))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with anyio.fail_after(self._patience.answer_s):
                chunked = "content-length" not in self.headers
                if chunked and scope.get("http_version", "1.1") == "1.0":
                    await self._whole(receive, send)
                else:
                    await _while_there(receive, self._held, partial(self._stream, send))
        except TimeoutError:
            raise Problem(
                503,
                f"the client did not read the response within {self._patience.answer_s:g} s: "
                "select less, or start a job",
            ) from None
        finally:
            self._held.cancel()
            with anyio.CancelScope(shield=True):
                await in_thread(self._held.close)

    def _start(self) -> Message:
        return {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }

    async def _stream(self, send: Send) -> None:
        await self._send(send, self._start())
        piece: bytes | object = self._first
        while piece is not _END:
            await self._send(send, {"type": "http.response.body", "body": piece, "more_body": True})
            piece = await in_thread(lambda: next(self._pieces, _END))
        await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False})

    async def _whole(self, receive: Receive, send: Send) -> None:
        with tempfile.SpooledTemporaryFile(max_size=_SPOOLED) as file:
            await _while_there(receive, self._held, partial(self._spool, file))
            size = file.tell()
            file.seek(0)
            self.headers["content-length"] = str(size)
            await self._send(send, self._start())
            while data := await to_thread.run_sync(file.read, 1 << 20):
                await self._send(
                    send, {"type": "http.response.body", "body": data, "more_body": True}
                )
            await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False})

    async def _spool(self, file: IO[bytes]) -> None:
        def write() -> None:
            for piece in chain((self._first,), self._pieces):
                if file.tell() + len(piece) > self._whole_bytes:
                    raise Problem(
                        413,
                        f"the response has more than {self._whole_bytes:,} bytes (spill), which "
                        "must be kept for HTTP/1.0: use HTTP/1.1, or select less",
                    )
                file.write(piece)
            file.flush()

        try:
            await in_thread(write)
        except OSError as error:
            if not is_full(error):
                raise
            raise Problem(503, FULL) from error

    async def _send(self, send: Send, message: Message) -> None:
        try:
            with anyio.fail_after(self._patience.stall_s):
                await send(message)
        except TimeoutError:
            raise Problem(
                408, f"the client read nothing for {self._patience.stall_s:g} s"
            ) from None
