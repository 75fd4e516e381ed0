"""A process opens as many files as it may, and a door refuses what goes beyond its share."""

from __future__ import annotations

import logging
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from blockstore.service.connections import MOST, Accepting, ConnectionCounts, share
from blockstore.service.listening import Listening
from blockstore.service.serving import Server, bound
from blockstore.world import World
from tests.support.asking import HERE
from tests.support.certificates import certificate

APP = Starlette(routes=[Route("/", lambda request: PlainTextResponse("here"))])
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers take three connections."""
    monkeypatch.setattr(Accepting.__init__, "__defaults__", (lambda: 3,))


def _wire(server: Server) -> socket.socket:
    url = httpx.URL(server.url)
    return socket.create_connection((url.host, url.port or 0), timeout=30)


def _until(holds: Callable[[], bool]) -> bool:
    clock = World.real().clock
    for _ in range(600):
        if holds():
            return True
        clock.sleep(0.05)
    return False


def _all_of(wire: socket.socket) -> bytes:
    data = b""
    while piece := wire.recv(1 << 16):
        data += piece
    return data


@pytest.mark.usefixtures("three")
def test_a_connection_beyond_the_limit_is_refused_in_words_and_its_place_is_free_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Server(APP, HERE) as server, ExitStack() as open_ones:
        wires = [open_ones.enter_context(_wire(server)) for _ in range(3)]
        assert _until(lambda: server._socket.connected == 3)
        with caplog.at_level(logging.WARNING):
            for _ in range(5):
                with _wire(server) as refused:
                    said = _all_of(refused)
                assert said.startswith(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\n")
                assert said.endswith(b'"connection limit reached; retry in a few seconds"}')
            answer = httpx.get(server.url)
            assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
        assert server.connections == ConnectionCounts(used=3, limit=3, refused=6)
        said_so = [one for one in caplog.messages if "connection limit reached (3)" in one]
        assert len(said_so) == 1, "once for a crowd"
        wires[0].sendall(GET)
        assert wires[0].recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        wires[1].close()
        assert _until(lambda: server._socket.connected == 2)
        assert httpx.get(server.url).text == "here"
    assert server._socket.connected == 0


@pytest.mark.usefixtures("three")
def test_clients_whose_tls_has_not_begun_count_and_have_no_words(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    trusted = ssl.create_default_context(cafile=str(cert))
    listening = Listening(host="127.0.0.1", port=0, tls_cert=cert, tls_key=key)
    with Server(APP, listening) as server, ExitStack() as open_ones:
        url = server.url.replace("127.0.0.1", "localhost")
        wires = [open_ones.enter_context(_wire(server)) for _ in range(3)]
        assert _until(lambda: server._socket.connected == 3)
        with _wire(server) as refused:
            assert _all_of(refused) == b""
        for wire in wires:
            wire.close()
        assert _until(lambda: server._socket.connected == 0)
        assert httpx.get(url, verify=trusted).text == "here"
        assert _until(lambda: server._socket.connected == 0)


def test_many_that_are_refused_at_once_do_not_hold_the_others_up() -> None:
    listening = Accepting(bound(HERE), b"no", lambda: 1)
    listening.setblocking(False)
    with listening, ExitStack() as open_ones:
        for _ in range(100):
            open_ones.enter_context(socket.create_connection(listening.getsockname()))
        first, _ = listening.accept()
        with first, pytest.raises(BlockingIOError):
            listening.accept()
        second, _ = listening.accept()
        assert second.fileno() >= 0
        second.close()
        second.close()
        assert listening.connected == 0


def test_a_door_has_a_quarter_of_the_files_and_at_most_its_own_limit() -> None:
    assert share(10) == 10
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert share() == min(MOST, soft // 4)


def test_a_process_raises_its_limit_to_what_it_may() -> None:
    code = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 400))\n"
        "from blockstore.service.connections import raise_limit, share\n"
        "print(share(), raise_limit(), resource.getrlimit(resource.RLIMIT_NOFILE), share())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "25 400 (400, 400) 100"
