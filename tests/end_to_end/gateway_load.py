"""Many clients on one gateway while a writer appends and the compactor merges and removes with
short delays.

    python -m tests.end_to_end.gateway_load --clients 64 --seconds 60
    python -m tests.end_to_end.gateway_load --store weed --delay 25 --rows 50000

With ``--store`` the table is on an S3 server behind proxies that delay each request: one for the
gateway, whose requests are counted, and one for the others.

Every answer says by its header which version it read, and must be the model's at that version: the
rows of all appends up to it, whatever was merged and removed meanwhile. A query may be told to come
back (429), and then comes back; any other error is a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pyarrow as pa

import blockstore as bs
from bench.latency.proxy import Proxy
from blockstore.compactor.by_hand import clean_once
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import BlockstoreError
from blockstore.world import World
from tests.end_to_end.gateways import GatewayProcess
from tests.end_to_end.s3_faults import server

__all__ = ["Report", "Store", "run", "store"]

ROWS = 500
SCHEMA = pa.schema([("time", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("s", pa.string())])
_CACHE = re.compile(r'(?m)^blockstore_cache_(\w+)_total\{\w+="(\w+)"\} (\S+)$')
_DELAYS = {"sync_delay": "1s", "delete_delay": "15s", "history_retention": "5s"}


@dataclass
class Report:
    """What came out."""

    queries: int = 0
    busy: int = 0
    failed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    appends: int = 0
    merges: int = 0
    removed: int = 0
    peak_kib: int = 0
    cache: dict[str, float] = field(default_factory=dict)
    """The gateway's cache: chunks by ``hit`` and ``miss``, bytes by ``asked`` and ``fetched``."""
    requests: int = 0
    """What the gateway sent to the server, where there is one."""
    received: int = 0
    """The bytes that it received from it."""

    def percentile_s(self, share: float) -> float:
        """The time within which this share of the queries was answered."""
        ordered = sorted(self.seconds) or [0.0]
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A server behind proxies. The environment names that of everything but the gateway."""

    lake: str
    proxy: Proxy
    """The gateway's."""


class _Load:
    """One run: threads that append, merge, clean and ask, and what they saw."""

    def __init__(self, table: str, clients: int, seconds: float, seed: int, rows: int) -> None:
        self.world = World.real()
        self.report = Report()
        self.clients = clients
        self.seed = seed
        self.url = table
        self.rows = rows
        self.until_s = self.world.clock.monotonic_s() + seconds
        self.lock = threading.Lock()
        self.appended: list[int] = []
        """The versions that appended, in order."""
        self.answers: list[tuple[int, int, int]] = []
        """Version, count and sum of every answer; judged at the end, when all versions are
        known."""
        bs.create(self.url, schema=SCHEMA, time_column="time", sort_by=["n"], properties=_DELAYS)
        for _ in range(8):
            self._append()

    def run(self, gateway: GatewayProcess) -> Report:
        loops = [self._write, self._merge, lambda: self._watch(gateway)]
        asks = [lambda number=number: self._ask(gateway, number) for number in range(self.clients)]
        threads = [threading.Thread(target=loop) for loop in (*loops, *asks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for version, count, total in self.answers:
            rows = self.rows * sum(one <= version for one in self.appended)
            if (count, total) != (rows, rows * (rows - 1) // 2):
                self.report.wrong.append(
                    f"version {version}: {count} rows, sum {total}; expected {rows} rows"
                )
        self.report.appends = len(self.appended)
        return self.report

    @property
    def over(self) -> bool:
        return self.world.clock.monotonic_s() >= self.until_s

    def _append(self) -> None:
        start = len(self.appended) * self.rows
        numbers = range(start, start + self.rows)
        times = pa.array([1_767_225_600_000_000 + n for n in numbers], SCHEMA.field(0).type)
        rows = pa.table(
            {"time": times, "n": list(numbers), "s": [f"row {n}" for n in numbers]}, schema=SCHEMA
        )
        block = bs.open(self.url).append(rows)
        assert block.version is not None, "the block is published"
        self.appended.append(block.version)

    def _write(self) -> None:
        while not self.over:
            self._append()
            self.world.clock.sleep(0.2)

    def _merge(self) -> None:
        settings = Settings(tier_blocks=4, memory_bytes=64 << 20, concurrency=1)
        while not self.over:
            try:
                table = bs.open(self.url)
                done = compact_once(table, settings)
                self.report.merges += len(done.done)
                self.report.removed += len(clean_once(table).removed)
            except BlockstoreError as error:
                self.report.failed.append(f"the compactor: {error}")
            self.world.clock.sleep(1.0)

    def _watch(self, gateway: GatewayProcess) -> None:
        while not self.over:
            self.report.peak_kib = max(self.report.peak_kib, gateway.memory_kib())
            self.world.clock.sleep(1.0)

    def _ask(self, gateway: GatewayProcess, number: int) -> None:
        dice = random.Random(self.seed * 1000 + number)
        with httpx.Client(base_url=gateway.url, timeout=120) as client:
            while not self.over:
                low = dice.randrange(self.rows)
                sql = (
                    "select count(*) as c, sum(n) as total, count(*) filter (where n >= ?) as "
                    "some from t "
                    f"where n > -{dice.randrange(1, 1000)}"
                )
                begun = self.world.clock.monotonic_s()
                try:
                    answer = client.post(
                        "/v1/query",
                        json={"sql": sql, "parameters": [low]},
                        headers={"Accept": "application/json"},
                    )
                except httpx.HTTPError as error:
                    self._failed(f"{type(error).__name__}: {error}")
                    continue
                self._note(answer, self.world.clock.monotonic_s() - begun)

    def _note(self, answer: httpx.Response, seconds: float) -> None:
        if answer.status_code == 429:
            with self.lock:
                self.report.busy += 1
            self.world.clock.sleep(0.5)
            return
        if answer.status_code != 200:
            self._failed(f"{answer.status_code}: {answer.text[:300]}")
            return
        [row] = answer.json()
        version = json.loads(answer.headers["x-blockstore-versions"])["t"]
        with self.lock:
            self.report.queries += 1
            self.report.seconds.append(seconds)
            self.answers.append((version, row["c"], int(row["total"])))

    def _failed(self, why: str) -> None:
        with self.lock:
            self.report.failed.append(why)


def run(
    folder: Path,
    clients: int,
    seconds: float,
    seed: int = 1,
    *,
    rows: int = ROWS,
    on: Store | None = None,
) -> Report:
    """The load, from the moment at which the gateway serves; on a local folder without a store."""
    lake, durable = (f"{folder}/lake", "?durable=false") if on is None else (on.lake, "")
    load = _Load(f"{lake}/t{durable}", clients, seconds, seed, rows)
    environment = {
        "BLOCKSTORE_TABLES_MAX_STALENESS": "5s",
        "BLOCKSTORE_QUERY_WAITING": "256",
        "BLOCKSTORE_QUERY_WAIT": "60s",
        "BLOCKSTORE_QUERY_TIME_LIMIT": "2m",
        "BLOCKSTORE_QUERY_AT_ONCE": "4",
        "BLOCKSTORE_JOBS_ENABLED": "false",
    }
    if on is not None:
        environment["AWS_ENDPOINT_URL"] = on.proxy.endpoint
    with GatewayProcess(f"{lake}{durable}", folder, "gateway", **environment) as gateway:
        load.until_s = load.world.clock.monotonic_s() + seconds
        report = load.run(gateway)
        found = _CACHE.findall(gateway.http.get("/metrics").text)
        report.cache = {what: float(value) for _, what, value in found}
        if on is not None:
            record = on.proxy.take()
            report.requests, report.received = record.requests, record.down
    return report


@contextmanager
def store(folder: Path, kind: str, delay_ms: float) -> Iterator[Store]:
    """Run a server of this kind behind two proxies; the environment names one of them."""
    with (
        server(folder, kind) as lake,
        Proxy.between(os.environ["AWS_ENDPOINT_URL"], delay_ms=delay_ms) as near,
        Proxy.between(os.environ["AWS_ENDPOINT_URL"], delay_ms=delay_ms) as proxy,
    ):
        os.environ["AWS_ENDPOINT_URL"] = near.endpoint
        yield Store(lake=lake, proxy=proxy)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rows", type=int, default=ROWS, help="of each append")
    parser.add_argument("--store", choices=["weed", "rgw"], help="an S3 server, not a folder")
    parser.add_argument("--delay", type=float, default=25, help="of each request to it, in ms")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if asked.store is None:
            report = run(folder, asked.clients, asked.seconds, rows=asked.rows)
        else:
            with store(folder, asked.store, asked.delay) as on:
                report = run(folder, asked.clients, asked.seconds, rows=asked.rows, on=on)
    print(
        f"{report.queries} queries, {report.busy} asked to come back, {len(report.failed)} failed, "
        f"{len(report.wrong)} wrong; "
        f"p50 {report.percentile_s(0.5):.3f} s, p99 {report.percentile_s(0.99):.3f} s; "
        f"{report.appends} appends, "
        f"{report.merges} merges, {report.removed} blocks removed; the gateway's memory at most "
        f"{report.peak_kib >> 10} MiB"
    )
    if asked.store is not None:
        print(_fetching(report))
    for line in [*report.failed[:10], *report.wrong[:10]]:
        print(line)
    return 1 if report.failed or report.wrong else 0


def _fetching(report: Report) -> str:
    cache = {"hit": 0.0, "miss": 0.0, "asked": 0.0, "fetched": 0.0} | report.cache
    chunks = cache["hit"] + cache["miss"]
    return (
        f"chunks found in the cache {cache['hit'] / max(chunks, 1):.1%} of {chunks:,.0f}; "
        f"{cache['asked'] / 2**20:,.1f} MiB needed by queries, {cache['fetched'] / 2**20:,.1f} MiB "
        f"fetched for them; {report.requests:,} requests of the gateway, "
        f"{report.received / 2**20:,.1f} MiB received"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
