"""A gateway over a lake in a folder, served over real HTTP on a free port of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

import blockstore as bs
from blockstore.reader.http.app import application
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Scope, Token, hashed
from blockstore.reader.settings import (
    CacheSettings,
    GatewaySettings,
    HttpSettings,
    JobSettings,
    QuerySettings,
    TableSettings,
)
from blockstore.service.billing import Prices
from blockstore.service.listening import Listening
from blockstore.service.logs import LogSettings
from blockstore.service.serving import Server
from blockstore.world import World

SCHEMA = pa.schema([("time", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("s", pa.string())])
HEADER = "time,n,s\n"
READ, WRITE, ADMIN, FEW, OTHER = "bsk_read", "bsk_write", "bsk_admin", "bsk_few", "bsk_other"
DDL, FEW_DDL = "bsk_ddl", "bsk_few_ddl"
TOKENS = (
    Token(name="reader", sha256=hashed(READ), scopes=frozenset({Scope.READ})),
    Token(
        name="writer",
        sha256=hashed(WRITE),
        scopes=frozenset({Scope.READ, Scope.WRITE, Scope.DDL}),
    ),
    Token(name="boss", sha256=hashed(ADMIN), scopes=frozenset({Scope.ADMIN})),
    Token(
        name="few",
        sha256=hashed(FEW),
        scopes=frozenset({Scope.READ, Scope.WRITE}),
        tables=frozenset({"flights"}),
    ),
    Token(name="other", sha256=hashed(OTHER), scopes=frozenset({Scope.READ, Scope.WRITE})),
    Token(name="definer", sha256=hashed(DDL), scopes=frozenset({Scope.DDL})),
    Token(
        name="few-ddl",
        sha256=hashed(FEW_DDL),
        scopes=frozenset({Scope.READ, Scope.DDL}),
        tables=frozenset({"flights", "mine"}),
    ),
)


def csv_of(rows: range) -> str:
    """Lines of a file for a table of the lake."""
    return HEADER + "".join(
        f"2026-01-01T00:{n // 60 % 60:02}:{n % 60:02}Z,{n},row {n}\n" for n in rows
    )


def rows_of(rows: range) -> pa.Table:
    times = pa.array(
        [1_767_225_600_000_000 + n * 1_000_000 for n in rows], pa.timestamp("us", "UTC")
    )
    return pa.table(
        {"time": times, "n": list(rows), "s": [f"row {n}" for n in rows]}, schema=SCHEMA
    )


def make_lake(folder: Path) -> str:
    """Two tables, ``flights`` with 1,000 rows in two blocks and ``salaries`` with 10; the URL
    without fsync."""
    url = f"{folder}/lake"
    for name, rows in (("flights", 1000), ("salaries", 10)):
        table = bs.create(
            f"{url}/{name}?durable=false", schema=SCHEMA, time_column="time", sort_by=["n"]
        )
        table.append(rows_of(range(rows // 2)))
        table.append(rows_of(range(rows // 2, rows)))
    return f"{url}?durable=false"


def settings(url: str, folder: Path, **more: Any) -> GatewaySettings:
    """Quick to look, with small limits; ``more`` replaces whole sections."""
    made = GatewaySettings(
        tables=TableSettings(urls=(url,), poll_s=0.2, max_staleness_s=600),
        cache=CacheSettings(folder=folder / "cache", size_bytes=1 << 30),
        query=QuerySettings(
            memory_bytes=1 << 30, threads=1, at_once=4, time_limit_s=60, isolated=False
        ),
        http=HttpSettings(
            listening=Listening(host="127.0.0.1", port=0), max_upload_bytes=1 << 20, stall_s=20
        ),
        jobs=JobSettings(poll_s=0.2, lease_s=10, work_dir=folder / "work"),
        log=LogSettings(),
        prices=Prices(),
        tokens=TOKENS,
    )
    return replace(made, **more)


@dataclass(frozen=True)
class Served:
    """A gateway that is served, and a client with the token of a writer."""

    gateway: Gateway
    url: str
    http: httpx.Client

    def as_(self, token: str | None) -> httpx.Client:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return client_of(self.url, headers)

    def query(self, sql: str, *, accept: str = "application/json", **more: Any) -> httpx.Response:
        return self.http.post("/v1/query", json={"sql": sql, **more}, headers={"Accept": accept})

    def rows(self, sql: str, **more: Any) -> Any:
        found = self.query(sql, **more)
        assert found.status_code == 200, found.text
        return found.json()


def client_of(url: str, headers: Mapping[str, str]) -> httpx.Client:
    """A client of a gateway without TLS: it loads no certificates, which takes longer than most
    requests."""
    return httpx.Client(base_url=url, headers=headers, timeout=60, verify=False)


@contextmanager
def serving(asked: GatewaySettings) -> Iterator[Served]:
    """The gateway, until the end of the block."""
    gateway = Gateway(asked, World.real())
    try:
        with Server(application(gateway), asked.http.listening, grace_s=1) as server:
            gateway.start()
            token = {"Authorization": f"Bearer {WRITE}"} if asked.tokens else {}
            with client_of(server.url, token) as client:
                yield Served(gateway, server.url, client)
    finally:
        gateway.close()


def until_ended(client: httpx.Client, job: str) -> dict[str, Any]:
    """The job, once it has ended; polled, for at most a minute."""
    world = World.real()
    for _ in range(600):
        found = client.get(f"/v1/jobs/{job}")
        assert found.status_code == 200, found.text
        if found.json()["state"] in ("done", "failed", "cancelled"):
            return dict(found.json())
        world.clock.sleep(0.1)
    raise AssertionError(f"job {job} has not ended: {found.text}")
