"""Gateways of one group in this process, each with its audit log; and one that misbehaves."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx

import blockstore as bs
from blockstore.reader.peers import PeerSettings, owner_of
from blockstore.reader.peers.address import parsed
from blockstore.reader.settings import AuditSettings
from blockstore.service.listening import Listening
from blockstore.world import World
from tests.reader.http.gateways import SCHEMA, Served, rows_of, serving, settings

TABLES = [f"t{number}" for number in range(6)]
ROWS = 100


@dataclass(frozen=True)
class Member:
    """A gateway of a group, and what its log has."""

    served: Served
    url: str
    log: Path

    def lines(self, mark: str, count: int = 0) -> list[dict[str, Any]]:
        """The audit log's lines whose statement has a mark; waits for so many."""
        found: list[dict[str, Any]] = []
        for _ in range(200):
            lines = [json.loads(line) for line in self.log.read_bytes().splitlines()]
            found = [one for one in lines if mark in (one.get("statement") or "")]
            if len(found) >= count:
                break
            World.real().clock.sleep(0.05)
        return found

    @property
    def ran(self) -> int:
        """How many queries ran here."""
        return self.served.gateway.engine.counts.queries

    def passed(self, outcome: str) -> float:
        """The counter of what came of asking others."""
        found = self.served.gateway.registry.get_sample_value(
            "blockstore_queries_passed_on_total", {"outcome": outcome}
        )
        assert found is not None
        return found

    def post(self, sql: str, token: str, **headers: str) -> httpx.Response:
        """A query by a client of its own."""
        headers = {"Accept": "application/json", **headers}
        with self.served.as_(token) as client:
            return client.post("/v1/query", json={"sql": sql}, headers=headers)


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens at."""
    with ExitStack() as stack:
        open_ = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in open_:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in open_]


def urls_of(ports: list[int]) -> list[str]:
    return [f"http://127.0.0.1:{port}" for port in ports]


def make_tables(folder: Path) -> str:
    """Six tables with as many rows each; the URL of their lake."""
    url = f"{folder}/lake"
    for name in TABLES:
        table = bs.create(f"{url}/{name}?durable=false", schema=SCHEMA, time_column="time")
        table.append(rows_of(range(ROWS)))
    return f"{url}?durable=false"


def owned(urls: list[str], by: str) -> list[str]:
    """The tables whose owner is this member."""
    return [name for name in TABLES if owner_of(name, urls) == by]


@contextmanager
def member(
    lake: str,
    folder: Path,
    url: str,
    urls: list[str],
    *,
    tls: tuple[Path, Path] | None = None,
    **more: Any,
) -> Iterator[Member]:
    """A gateway of a group, until the end of the block; ``tls`` is a certificate, which the others
    have too, and its key."""
    port = parsed(url, "url").port
    cert, key = tls or (None, None)
    log = folder / f"audit-{port}.jsonl"
    asked = settings(lake, folder, **more)
    addresses = tuple(parsed(one, "urls") for one in urls)
    asked = replace(
        asked,
        http=replace(
            asked.http,
            listening=Listening(host="127.0.0.1", port=port, tls_cert=cert, tls_key=key),
        ),
        audit=AuditSettings(file=log),
        peers=PeerSettings(own=parsed(url, "self"), urls=addresses, retry_s=0.1, tls_ca=cert),
    )
    with serving(asked) as served:
        made = Member(served, url, log)
        yield made


def until_ready(*members: Member, others: int) -> None:
    """Wait until each counts so many others."""
    for one in members:
        peers = one.served.gateway.peers
        assert peers is not None
        for _ in range(300):
            if peers.members.counts()[0] == others:
                break
            World.real().clock.sleep(0.05)
        assert peers.members.counts()[0] == others


@dataclass
class Odd:
    """A member that is ready, and does something odd with queries."""

    url: str
    how: str
    """``hangup``, ``refuse`` (503), ``break`` within the rows, or ``unknown`` (404)."""
    connections: int = 0
    queries: list[dict[str, str]] = field(default_factory=list)
    ready: bool = True


@contextmanager
def odd_member(url: str, how: str) -> Iterator[Odd]:
    """It runs until the end of the block."""
    odd = Odd(url, how)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            odd.connections += 1

        def log_message(self, *_: object) -> None:
            return None

        def do_GET(self) -> None:
            self.send_response(200 if odd.ready else 503)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def do_POST(self) -> None:
            odd.queries.append(dict(self.headers))
            self.rfile.read(int(self.headers["content-length"]))
            if odd.how == "hangup":
                self.close_connection = True
                return
            if odd.how == "break":
                self.send_response(200)
                self.send_header("Content-Type", "text/csv")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"4\r\nn\n1\n\r\n")
                self.close_connection = True
                return
            status, kind = {"refuse": (503, "unavailable"), "unknown": (404, "unknown_table")}[
                odd.how
            ]
            body = json.dumps({"error": kind, "message": "no"}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", parsed(url, "url").port), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield odd
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
