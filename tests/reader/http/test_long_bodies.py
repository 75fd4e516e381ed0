"""Bodies that take long to arrive: they end with their token, and after a time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

import blockstore as bs
from blockstore.clock import ManualClock
from blockstore.reader.audit import AuditLog
from blockstore.reader.http.edge import Edge
from blockstore.reader.http.tokens import Scope as TokenScope
from blockstore.reader.http.tokens import Token, hashed
from blockstore.world import World
from tests.reader.http.gateways import HEADER, TOKENS, Served, make_lake, serving, settings

ALL = "bsk_all"
TABLES = "/iceberg/v1/namespaces/lake/tables"
ROW = b"2026-03-01T00:00:00Z,1,after\n"
UPLOADS = [
    ("/v1/jobs?table=flights", "text/csv", HEADER.encode(), ROW),
    ("/v1/tables/papers/files?name=a", "text/plain", b"a", b"b"),
    (TABLES, "application/json", b"{", b'"name": "made", "schema": {"fields": []}}'),
    (f"{TABLES}/flights", "application/json", b"{", b'"requirements": [], "updates": []}'),
    ("/v1/jobs", "application/json", b"{", b'"kind": "query", "sql": "SELECT 1"}'),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("long")
    asked = settings(make_lake(folder), folder)
    schema = bs.typed_schema([("name", "string"), bs.file("doc")])
    bs.create(f"{folder}/lake/papers?durable=false", schema=schema, row_ids=True)
    with serving(replace(asked, tokens=(*TOKENS, _token()))) as one:
        one.gateway.tables.poll_now()
        yield one


def _token() -> Token:
    scopes = frozenset({TokenScope.READ, TokenScope.WRITE, TokenScope.DDL})
    return Token(name="all", sha256=hashed(ALL), scopes=scopes)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@pytest.mark.parametrize(("path", "kind", "begin", "rest"), UPLOADS)
def test_a_body_ends_with_its_token(
    served: Served, path: str, kind: str, begin: bytes, rest: bytes
) -> None:
    place = urlsplit(served.url)
    jobs = served.http.get("/v1/jobs").json()
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=60) as wire:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ALL}\r\nContent-Type: "
            f"{kind}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        wire.sendall(head.encode() + _chunk(begin))
        World.real().clock.sleep(0.5)
        served.gateway.gate.exchange(TOKENS)
        try:
            wire.sendall(_chunk(rest) + _chunk(b""))
            with wire.makefile("rb") as read:
                answer = read.read()
        finally:
            served.gateway.gate.exchange((*TOKENS, _token()))
    assert b" 401 " in answer.splitlines()[0], answer
    assert b"was revoked" in answer
    assert served.http.get("/v1/jobs").json() == jobs
    assert served.rows("select count(*) as c from flights where s = 'after'") == [{"c": 0}]


@pytest.mark.parametrize(
    ("piece", "parts", "status"),
    [(1, 200, 408), (1 << 20, 200, 408), (2 << 20, 200, 200), (1, 100, 200)],
)
def test_a_body_arrives_fast_enough_or_within_a_time(piece: int, parts: int, status: int) -> None:
    world = World.manual()
    clock = world.clock
    assert isinstance(clock, ManualClock)
    sent: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async for _ in Request(scope, receive).stream():
            pass
        await Response()(scope, receive, send)

    left = iter(range(parts - 1, -1, -1))
    body = bytes(piece)

    async def receive() -> Message:
        clock.advance(20)
        return {"type": "http.request", "body": body, "more_body": next(left) > 0}

    async def send(message: Message) -> None:
        sent.append(message)

    edge = Edge(
        app,
        world,
        audit=AuditLog(None, world),
        body_bytes=1 << 40,
        upload_bytes=1 << 40,
        stall_s=30,
        long_s=3600,
    )
    scope = {"type": "http", "method": "POST", "path": "/v1/x", "headers": []}
    asyncio.run(edge(scope, receive, send))
    assert sent[0]["status"] == status
