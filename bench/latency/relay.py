"""One client's connection: requests go up to the server, responses come down, with a delay.

Rules:
- Without a fault nothing is changed on the way: the server sees the host that the client signed.
- A fault other than a late response ends the client's connection.
- Bodies are passed on as they come, in both directions at once. The delay holds back a response's
  first byte and nothing else, so it is paid once for a request, not for each piece.
- The server, not the relay, gives the go-ahead of ``Expect: 100-continue``; it is delayed too.
- A response to a request whose body the client never sent ends the connection: what follows could
  not be distinguished from that body.
"""

from __future__ import annotations

import asyncio
import contextlib

from bench.latency.broken import received, refusal, reset, unranged
from bench.latency.fate import Course, Fate, Fault
from bench.latency.framing import LIMIT, Ending, Head, pieces, read_head
from bench.latency.line import Line
from bench.latency.log import Log, Open

__all__ = ["Relay"]

_REFUSED = {Fault.ERROR: 500, Fault.SLOW_DOWN: 503, Fault.BURST: 503}
_CHANGED = {Fault.ERROR_APPLIED, Fault.RESET_BODY, Fault.TRUNCATED, Fault.SHORT_LENGTH}


class Relay:
    """Serves clients in front of the server at ``host``, ``port``."""

    def __init__(self, host: str, port: int, *, fate: Fate, up: Line, down: Line, log: Log) -> None:
        self._host = host
        self._port = port
        self._fate = fate
        self._up = up
        self._down = down
        self._log = log

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side ends it."""
        self._log.connected()
        server: asyncio.StreamWriter | None = None
        try:
            answers, server = await asyncio.open_connection(self._host, self._port, limit=LIMIT)
            while (request := await read_head(reader)) is not None:
                exchange = self._log.begin(request)
                try:
                    if not await self._exchange(
                        request, exchange, (reader, writer), answers, server
                    ):
                        break
                finally:
                    exchange.close()
        except (OSError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # either side is gone, or the proxy ends; the other sees its connection end
        finally:
            for each in (server, writer):
                if each is not None:
                    each.close()

    async def _exchange(
        self,
        request: Head,
        exchange: Open,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        answers: asyncio.StreamReader,
        server: asyncio.StreamWriter,
    ) -> bool:
        """One request and its response; whether the connection goes on."""
        reader, writer = client
        course = self._fate(request)
        if course.fault in _REFUSED:
            await self._refuse(request, course, exchange, reader, writer)
            return False
        if course.fault is Fault.RESET_BEFORE:
            reset(writer)
            return False
        upload = asyncio.create_task(self._upload(request, course, exchange, reader, server))
        try:
            if course.fault is Fault.RESET_UPLOAD:
                await upload
                reset(writer)
                return False
            response = await self._respond(request, course, exchange, answers, writer)
            if response is None or not upload.done():
                return False
        finally:
            upload.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await upload
        unending = response.response_body(request.method).ending is Ending.CLOSE
        return not (request.closes or response.closes or unending)

    async def _refuse(
        self,
        request: Head,
        course: Course,
        exchange: Open,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """The server's error for a request that it never sees."""
        assert course.fault is not None, "only a fault refuses"
        if not request.expects:
            async for piece in pieces(reader, request.request_body()):
                exchange.up += piece.payload
        await asyncio.sleep(course.delay_s)
        exchange.status = _REFUSED[course.fault]
        writer.write(refusal(exchange.status, request.method))
        await writer.drain()

    async def _upload(
        self,
        request: Head,
        course: Course,
        exchange: Open,
        reader: asyncio.StreamReader,
        server: asyncio.StreamWriter,
    ) -> None:
        sent = request.data
        if course.fault is Fault.IGNORES_RANGE:
            sent = unranged(request, self._host, self._port) or sent
        server.write(sent)
        async for piece in pieces(reader, request.request_body()):
            exchange.up += piece.payload
            await self._up.carry(len(piece.data))
            if course.fault is Fault.RESET_UPLOAD:
                server.write(piece.data[: len(piece.data) // 2])
                await server.drain()
                return
            server.write(piece.data)
            await server.drain()

    async def _respond(
        self,
        request: Head,
        course: Course,
        exchange: Open,
        answers: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> Head | None:
        """Carry out ``course``: the response as the client receives it; None if there is none."""
        while (response := await read_head(answers)) is not None:
            if course.delay_s:
                await asyncio.sleep(course.delay_s)
            if response.status >= 200:
                break
            exchange.go_ahead()
            writer.write(response.data)
        else:
            return None
        body = response.response_body(request.method)
        if course.fault is Fault.RESET_AFTER:
            reset(writer)
            return None
        if course.fault in _CHANGED:
            exchange.status = response.status
            writer.write(await received(course.fault, response, body, answers, request.method))
            await writer.drain()
            if course.fault is Fault.RESET_BODY:
                reset(writer)
            return None
        empty = body.ending is Ending.LENGTH and not body.length
        exchange.status = response.status
        exchange.sent(0, last=empty)
        writer.write(response.data)
        async for piece in pieces(answers, body):
            await self._down.carry(len(piece.data))
            exchange.sent(piece.payload, last=piece.last)
            writer.write(piece.data)
            await writer.drain()
        return response
