"""Clients that neither send nor take: their slots and their threads are free again after a
while."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from blockstore.world import World
from tests.reader.http.gateways import READ, Served, make_lake, serving, settings
from tests.support.open_files import allow_files

_ENDLESS = "select a.n, b.s, c.s as t from flights a, flights b, flights c"


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two queries at once, no one waits long, and who takes nothing for a second is let go."""
    folder = tmp_path_factory.mktemp("slow")
    asked = settings(make_lake(folder), folder)
    query = replace(asked.query, at_once=2, waiting=0, time_limit_s=300)
    with serving(replace(asked, query=query, http=replace(asked.http, stall_s=1.0))) as one:
        yield one


def _begun(served: Served) -> socket.socket:
    """A client that asks for much and reads nothing."""
    place = urlsplit(served.url)
    body = json.dumps({"sql": _ENDLESS}).encode()
    head = (
        f"POST /v1/query HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer "
        f"{READ}\r\nAccept: text/csv\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    wire = socket.create_connection((place.hostname or "", place.port or 0), timeout=60)
    wire.sendall(head.encode() + body)
    return wire


def _until(done: object) -> bool:
    world = World.real()
    for _ in range(600):
        if done():  # type: ignore[operator]
            return True
        world.clock.sleep(0.1)
    return False


def test_too_many_at_once_are_429_and_who_reads_nothing_is_let_go(impatient: Served) -> None:
    engine = impatient.gateway.engine
    wires = [_begun(impatient) for _ in range(2)]
    try:
        assert _until(lambda: engine.running() == 2)
        answer = impatient.query("select n from flights limit 1")
        assert answer.status_code in (200, 429)
        if answer.status_code == 429:
            assert (answer.json()["error"], int(answer.headers["retry-after"]) > 0) == (
                "busy",
                True,
            )
        assert _until(lambda: engine.running() == 0), "their slots are free again"
    finally:
        for wire in wires:
            wire.close()
    assert impatient.rows("select count(*) as c from flights") == [{"c": 1000}]


def test_a_client_that_goes_away_ends_its_query(impatient: Served) -> None:
    engine = impatient.gateway.engine
    wire = _begun(impatient)
    assert _until(lambda: engine.running() == 1)
    wire.recv(1000)
    wire.close()
    assert _until(lambda: engine.running() == 0)


def test_a_body_that_does_not_come_ends_its_request(impatient: Served) -> None:
    place = urlsplit(impatient.url)
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=60) as wire:
        wire.sendall(
            f"POST /v1/query HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {READ}\r\nContent-Type: "
            "application/json\r\n"
            "Content-Length: 100\r\n\r\n{".encode()
        )
        assert b" 408 " in wire.recv(1000).splitlines()[0]


def test_a_thousand_idle_connections_do_not_delay_a_query(impatient: Served) -> None:
    allow_files(4_096)
    place = urlsplit(impatient.url)
    address = (place.hostname or "", place.port or 0)
    wires = [socket.create_connection(address, timeout=60) for _ in range(1_000)]
    try:
        assert impatient.rows("select count(*) as c from flights") == [{"c": 1000}]
        wires[-1].sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wires[-1].recv(1000).startswith(b"HTTP/1.1 200 ")
    finally:
        for wire in wires:
            wire.close()
