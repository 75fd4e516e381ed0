"""Four gateways of a group behind a balancer, under load; one is killed, and a fifth joins.

    python -m tests.end_to_end.gateway_group --tables 20 --clients 8 --queries 900

The gateways are processes on an S3 server. They know each other by a DNS name, whose addresses a
file has; each has its own cache and audit log. The load has three parts: before the kill, with the
kill, and with the fifth. Every answer must be right, and none may fail: a client tries again as the
library does, after 429, 503 and a connection that broke. Each query that was sent once has one line
in the logs. The same load without a group, with the same gateways, shows what the
group saves of the caches.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pyarrow as pa

import blockstore as bs
from blockstore.reader.peers import owner_of
from blockstore.world import World
from tests.end_to_end.gateways import GatewayProcess
from tests.end_to_end.s3_faults import server
from tests.support.balancer import Balancer, balanced

__all__ = ["Caches", "Report", "run"]

NAME, GATEWAYS, TRIES = "gateways.test", 4, 8
SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])
_CHUNK = re.compile(r"[0-9a-f]{64}")
_MARK = re.compile(r"/\* q(\d+) \*/")
_RESOLVER = """
import os, socket
_real = socket.getaddrinfo
def getaddrinfo(host, port, *more, **named):
    if host != "{name}":
        return _real(host, port, *more, **named)
    with open({file!r}) as file:
        hosts = file.read().split()
    return [one for host in hosts for one in _real(host, port, *more, **named)]
socket.getaddrinfo = getaddrinfo
"""


@dataclass(frozen=True)
class Caches:
    """What all gateways have cached."""

    bytes: int
    files: int
    """Chunks, each counted as often as a gateway has it."""
    distinct: int

    @property
    def copies(self) -> float:
        return self.files / max(1, self.distinct)


@dataclass
class Report:
    """What came out."""

    queries: int = 0
    again: int = 0
    """Queries that were sent more than once."""
    twice: int = 0
    """Queries that were sent once and ran twice: their owner was killed before it had answered."""
    failed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    audit: list[str] = field(default_factory=list)
    passed: Counter[str] = field(default_factory=Counter)
    """What came of asking another gateway, at those that live."""
    before: Caches = Caches(0, 0, 0)
    """Before the kill."""
    after: Caches = Caches(0, 0, 0)
    """At the end, of five gateways."""
    by_fifth: int = 0
    """Queries that the fifth answered."""

    @property
    def problems(self) -> list[str]:
        return [*self.failed, *self.wrong, *self.audit]


class _Run:
    def __init__(
        self, lake: str, folder: Path, *, tables: int, rows: int, clients: int, queries: int,
        grouped: bool, seed: int,
    ) -> None:  # fmt: skip
        self.lake, self.folder = lake, folder
        self.tables, self.rows, self.clients = tables, rows, clients
        self.grouped, self.seed = grouped, seed
        self.part = queries // 3
        self.until = 0
        self.world = World.real()
        self.report = Report()
        self.lock = threading.Lock()
        self.sent: dict[int, int] = {}
        """How often each query was sent, by its number."""
        self.next = 0
        self.hosts = [f"127.0.{10 + grouped}.{number}" for number in range(1, GATEWAYS + 2)]
        self.port = self._shared_port()
        self.members = folder / "members"
        self.gateways: list[GatewayProcess] = []

    def _shared_port(self) -> int:
        """A port with which each gateway owns a table, also the fifth: owners follow from it."""
        while True:
            port = _free_port(self.hosts[0])
            urls = [f"http://{host}:{port}" for host in self.hosts]
            later = [*urls[:1], *urls[2:]]
            if all(len(shares(self.tables, some)) == GATEWAYS for some in (urls[:-1], later)):
                return port

    def run(self) -> Report:
        self.members.write_text(" ".join(self.hosts[:GATEWAYS]))
        (self.folder / "sitecustomize.py").write_text(
            _RESOLVER.format(name=NAME, file=str(self.members))
        )
        with ExitStack() as stack:
            for host in self.hosts[:GATEWAYS]:
                self._start(stack, host)
            self._until_ready(GATEWAYS - 1)
            backends = [(host, self.port) for host in self.hosts[:GATEWAYS]]
            balancer = stack.enter_context(balanced(backends))
            self._load(balancer, lambda: None)
            self.report.before = self._caches()
            self._load(balancer, self.gateways[1].kill)
            balancer.backends.remove((self.hosts[1], self.port))
            fifth = self.hosts[GATEWAYS]
            self._load(balancer, lambda: self._join(stack, balancer, fifth))
            self._look_at_metrics()
            self.report.after = self._caches()
        self._judge_logs()
        if self.report.passed["unreachable"] > GATEWAYS + self.clients:
            self.report.failed.append(f"the killed one was asked again: {self.report.passed}")
        if self.grouped and not self.report.by_fifth:
            self.report.failed.append("the fifth answered nothing")
        return self.report

    def _start(self, stack: ExitStack, host: str) -> GatewayProcess:
        environment = {
            "BLOCKSTORE_CACHE_FOLDER": str(self.folder / f"cache-{host}"),
            "BLOCKSTORE_AUDIT_FILE": str(self.folder / f"audit-{host}"),
            "BLOCKSTORE_QUERY_ISOLATED": "false",
            "BLOCKSTORE_QUERY_WAITING": "256",
            "BLOCKSTORE_QUERY_WAIT": "120s",
            "BLOCKSTORE_QUERY_TIME_LIMIT": "3m",
            "BLOCKSTORE_JOBS_ENABLED": "false",
            "BLOCKSTORE_TABLES_POLL": "2s",
            "XDG_CACHE_HOME": str(self.folder / "home"),
            "PYTHONPATH": str(self.folder),
        }
        if self.grouped:
            environment |= {
                "BLOCKSTORE_PEERS_SELF": f"http://{host}:{self.port}",
                "BLOCKSTORE_PEERS_DNS": f"http://{NAME}:{self.port}",
                "BLOCKSTORE_PEERS_PLAIN_HTTP": "true",
                "BLOCKSTORE_PEERS_LOOKUP": "500ms",
                "BLOCKSTORE_PEERS_RETRY": "500ms",
            }
        made = GatewayProcess(
            self.lake, self.folder, f"gateway-{host}", address=(host, self.port), **environment
        )
        self.gateways.append(stack.enter_context(made))
        return made

    def _until_ready(self, others: int) -> None:
        """Wait until those that live are ready, and each counts so many others."""
        wanted = f'blockstore_peers{{state="ready"}} {float(others if self.grouped else 0)}'
        for one in self._alive():
            for _ in range(1200):
                text = one.http.get("/metrics").text
                if one.http.get("/-/ready").status_code == 200 and wanted in text:
                    break
                self.world.clock.sleep(0.1)
            else:
                raise AssertionError(f"{one.url} did not come to count {others} others: {text}")

    def _alive(self) -> Iterator[GatewayProcess]:
        return (one for one in self.gateways if one.runs)

    def _join(self, stack: ExitStack, balancer: Balancer, host: str) -> None:
        """The fifth starts, and is named instead of the killed one."""
        self._start(stack, host)
        self.members.write_text(" ".join([*self.hosts[:1], *self.hosts[2:]]))
        self._until_ready(GATEWAYS - 1)
        balancer.backends.append((host, self.port))

    def _load(self, balancer: Balancer, meanwhile) -> None:  # type: ignore[no-untyped-def]
        """One part: some queries, ``meanwhile`` while they run, and a part's queries after it."""
        begun = self.next
        over = threading.Event()
        threads = [
            threading.Thread(target=self._ask, args=(balancer.url, number, over))
            for number in range(self.clients)
        ]
        for thread in threads:
            thread.start()
        try:
            while self.next < begun + self.part // 10:
                self.world.clock.sleep(0.02)
            meanwhile()
            self.until = self.next + self.part
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def _ask(self, url: str, client: int, over: threading.Event) -> None:
        dice = random.Random(f"{self.seed} {client} {self.next}")
        while True:
            with self.lock:
                if self.next >= self.until and over.is_set():
                    return
                number, self.next = self.next, self.next + 1
            table, low = dice.randrange(self.tables), dice.randrange(self.rows)
            sql = (
                "select count(*) as c, sum(n) as total, max(s) as last "
                f"from t{table} where n >= {low} /* q{number} */"
            )
            count = self.rows - low
            expected = {
                "c": count,
                "total": str((low + self.rows - 1) * count // 2),
                "last": _text(table, self.rows - 1),
            }
            found = self._answer(url, number, sql, dice)
            if found is None:
                continue
            with self.lock:
                self.report.queries += 1
                if found != expected:
                    self.report.wrong.append(f"q{number}: {found}, expected {expected}")

    def _answer(self, url: str, number: int, sql: str, dice: random.Random) -> dict | None:  # type: ignore[type-arg]
        """The row of a query, tried again as the client library does."""
        why = ""
        for tried in range(1, TRIES + 1):
            self.sent[number] = tried
            try:
                with httpx.Client(base_url=url, timeout=300, verify=False) as client:
                    found = client.post(
                        "/v1/query",
                        json={"sql": sql},
                        headers={"Accept": "application/json;numbers=text"},
                    )
            except httpx.HTTPError as error:
                why = f"{type(error).__name__}: {error}"
                self.world.clock.sleep(dice.uniform(0.1, 0.5))
                continue
            if found.status_code == 200:
                [row] = found.json()
                return {"c": int(row["c"]), "total": str(row["total"]), "last": row["last"]}
            why = f"{found.status_code}: {found.text[:300]}"
            if found.status_code not in (429, 503):
                break
            self.world.clock.sleep(min(1.0, float(found.headers["retry-after"])))
        with self.lock:
            self.report.failed.append(f"q{number} after {tried} tries: {why}")
        return None

    def _caches(self) -> Caches:
        """What is on disk, also of the killed one, without holes and without links of queries."""
        seen, size = Counter[str](), 0
        for folder in self.folder.glob("cache-*"):
            for name, found in _chunks(folder).items():
                seen[name] += 1
                size += found
        return Caches(bytes=size, files=sum(seen.values()), distinct=len(seen))

    def _look_at_metrics(self) -> None:
        for one in self._alive():
            text = one.http.get("/metrics").text
            for outcome, value in re.findall(
                r'blockstore_queries_passed_on_total\{outcome="(\w+)"\} (\S+)', text
            ):
                self.report.passed[outcome] += int(float(value))

    def _judge_logs(self) -> None:
        """Each query that was answered has a line; one that was sent once has one."""
        lines: dict[int, list[tuple[str, str]]] = {}
        for host in self.hosts:
            for line in (self.folder / f"audit-{host}").read_text().splitlines():
                found = json.loads(line)
                mark = _MARK.search(found["statement"] or "")
                if mark is not None:
                    lines.setdefault(int(mark[1]), []).append((host, found["outcome"]))
        self.report.again = sum(tried > 1 for tried in self.sent.values())
        self.report.by_fifth = sum((self.hosts[GATEWAYS], "ok") in some for some in lines.values())
        for number, tried in self.sent.items():
            found = lines.get(number, [])
            if not any(outcome == "ok" for _, outcome in found):
                self.report.audit.append(f"q{number} has no line: {found}")
            if tried > 1 or len(found) == 1:
                continue
            # The killed one may have written its line and not sent its answer.
            if [host != self.hosts[1] for host, _ in found].count(True) <= 1:
                self.report.twice += 1
            else:
                self.report.audit.append(f"q{number} was sent once and has {found}")
        if self.report.twice > self.clients:
            self.report.audit.append(f"{self.report.twice} queries ran twice, more than were sent")


def _chunks(folder: Path) -> dict[str, int]:
    """The chunks in a cache folder, by hash, with their bytes on disk."""
    return {
        path.name: path.stat().st_blocks * 512
        for part in ("files", "columns")
        for path in (folder / part).iterdir()
        if _CHUNK.fullmatch(path.name)
    }


def _text(table: int, number: int) -> str:
    # Digits that neither repeat nor sort away: so a column takes its space.
    return f"{number:06}-{(number * 2_654_435_761 + table * 40_503) % (1 << 61):019}"


def make(lake: str, tables: int, rows: int) -> None:
    """The tables, one block each."""
    for table in range(tables):
        made = bs.create(f"{lake}/t{table}", schema=SCHEMA, sort_by=["n"])
        texts = [_text(table, number) for number in range(rows)]
        made.append(pa.table({"n": list(range(rows)), "s": texts}, schema=SCHEMA))


def _free_port(host: str) -> int:
    import socket

    with socket.socket() as one:
        one.bind((host, 0))
        return int(one.getsockname()[1])


def run(
    lake: str, folder: Path, *, tables: int, rows: int, clients: int, queries: int,
    grouped: bool = True, seed: int = 1,
) -> Report:  # fmt: skip
    """The load on the tables of ``make``; the report names what went wrong."""
    folder.mkdir()
    return _Run(
        lake, folder, tables=tables, rows=rows, clients=clients, queries=queries, grouped=grouped,
        seed=seed,
    ).run()  # fmt: skip


def shares(tables: int, members: list[str]) -> Counter[str]:
    """How many of the tables each member owns."""
    return Counter(owner_of(f"t{number}", members) for number in range(tables))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--rows", type=int, default=20_000, help="of each table")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--queries", type=int, default=900)
    parser.add_argument("--store", choices=["weed", "rgw"], default="weed")
    asked = parser.parse_args(arguments)
    reports = {}
    with tempfile.TemporaryDirectory() as name, server(Path(name), asked.store) as lake:
        make(lake, asked.tables, asked.rows)
        for grouped in (True, False):
            reports[grouped] = run(
                lake, Path(name) / f"run-{grouped}", tables=asked.tables, rows=asked.rows,
                clients=asked.clients, queries=asked.queries, grouped=grouped,
            )  # fmt: skip
    group, apart = reports[True], reports[False]
    for report in (group, apart):
        for line in report.problems[:20]:
            print(line)
    print(f"asked of other gateways: {dict(group.passed)}; {group.by_fifth} answered by the fifth")
    missed = group.before.copies > 1.25 or group.before.bytes * 2 > apart.before.bytes
    print(
        f"{group.queries} queries, {len(group.failed)} failed, {len(group.wrong)} wrong, "
        f"{len(group.audit)} of the audit logs wrong; {group.again} sent again, {group.twice} ran "
        f"twice; cached {group.before.bytes / 2**20:.1f} MiB, each chunk at "
        f"{group.before.copies:.2f} gateways, without a group {apart.before.bytes / 2**20:.1f} MiB "
        f"at {apart.before.copies:.2f}; after the kill and the fifth {group.after.copies:.2f} and "
        f"{apart.after.copies:.2f}"
    )
    return 1 if group.problems or apart.problems or missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
