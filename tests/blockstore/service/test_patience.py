"""An idle connection is kept longer than clients and balancers keep it, and a head does not come
for ever."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from blockstore.service.patience import HEAD_S, KEPT_S
from blockstore.service.serving import Server
from blockstore.world import World
from tests.support.asking import HERE

CLOCK = World.real().clock
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LONGEST_IDLE_OF_A_BALANCER_S = 60


async def _body(request: Request) -> Response:
    return PlainTextResponse((await request.body()).decode())


APP = Starlette(
    routes=[
        Route("/", lambda request: PlainTextResponse("here")),
        Route("/body", _body, methods=["POST"]),
    ]
)


@pytest.fixture
def hasty() -> Iterator[Server]:
    """A head comes within half a second, and an idle connection is kept for three."""
    with Server(APP, HERE, kept_s=3, head_s=0.5) as server:
        yield server


def _wire(server: Server) -> socket.socket:
    url = httpx.URL(server.url)
    return socket.create_connection((url.host, url.port or 0), timeout=30)


def _response(wire: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"here"):
        piece = wire.recv(1 << 16)
        if not piece:
            return data
        data += piece
    return data


def test_a_connection_is_kept_for_longer_than_a_balancer_keeps_it() -> None:
    server = Server(APP, HERE)
    try:
        config = server._server.config
        assert config.timeout_keep_alive == KEPT_S > LONGEST_IDLE_OF_A_BALANCER_S
        assert HEAD_S <= 60
    finally:
        server.stop()


def test_an_idle_connection_is_used_again_and_then_closed(hasty: Server) -> None:
    """Idle for longer than a head may take: that time is not for connections that are kept."""
    with _wire(hasty) as wire:
        wire.sendall(GET)
        assert _response(wire).endswith(b"here")
        CLOCK.sleep(1)
        wire.sendall(GET)
        assert _response(wire).endswith(b"here")
        assert wire.recv(1) == b""


def test_a_client_that_sends_nothing_is_disconnected_without_a_word(hasty: Server) -> None:
    with _wire(hasty) as wire:
        assert wire.recv(100) == b""


@pytest.mark.parametrize("first", [b"", GET], ids=["the first request", "a later one"])
def test_half_a_head_is_answered_in_words(hasty: Server, first: bytes) -> None:
    with _wire(hasty) as wire:
        if first:
            wire.sendall(first)
            assert _response(wire).endswith(b"here")
        wire.sendall(GET[:9])
        said = _response(wire)
    assert said.startswith(b"HTTP/1.1 408 ")
    assert said.endswith(b"send it without a pause\n")


def test_a_head_that_drips_is_ended_however_often_a_byte_comes(hasty: Server) -> None:
    with _wire(hasty) as wire:
        wire.settimeout(0.1)
        sent = 0
        for byte in b"GET / HTTP/1.1\r\nX: " + b"y" * 1_000:
            try:
                wire.sendall(bytes([byte]))
                sent += 1
                if not wire.recv(1_000):
                    break
            except TimeoutError:
                continue
            except OSError:  # what was on its way when the connection ended resets it
                break
    assert sent < 500


def test_a_body_may_take_longer_than_a_head(hasty: Server) -> None:
    with _wire(hasty) as wire:
        wire.sendall(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n")
        for byte in (b"h", b"e", b"r", b"e"):
            CLOCK.sleep(0.3)
            wire.sendall(byte)
        assert _response(wire).startswith(b"HTTP/1.1 200 ")


def test_two_requests_in_one_piece_and_a_half_are_each_answered(hasty: Server) -> None:
    with _wire(hasty) as wire:
        wire.sendall(GET + GET + GET[:9])
        said = b""
        while said.count(b"here") < 2:
            said += wire.recv(1 << 16)
        wire.sendall(GET[9:])
        assert _response(wire).endswith(b"here")


def test_idle_connections_do_not_delay_the_end() -> None:
    server = Server(APP, HERE, grace_s=600)
    server.start()
    wires = [_wire(server) for _ in range(4)]
    for wire in wires[:2]:
        wire.sendall(GET)
        assert _response(wire).endswith(b"here")
    wires[2].sendall(GET[:9])
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    stopping.join(60)
    try:
        assert not stopping.is_alive()
        assert not server.alive
        assert [wire.recv(1) for wire in wires] == [b""] * 4
    finally:
        for wire in wires:
            wire.close()
