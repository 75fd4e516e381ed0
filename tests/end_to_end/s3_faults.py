"""Writers, a changer, a compactor, readers and a gateway on a store that fails now and then.

    python -m tests.end_to_end.s3_faults --seconds 60 --delay 25 --seed 1 [--store rgw]

All requests pass a proxy that delays them and, by a seed, makes some slow and some fail
(``bench.latency.faults``), with bursts of 503 besides. Nothing acknowledged may be lost or doubled,
nothing refused may be seen, no read may differ from its version, and every error must be one of
``blockstore.errors``. Versions are checked beside the proxy, where no faults are: during the run,
and at its end, when the faults are over.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

import blockstore as bs
from bench.latency.fate import Fault
from bench.latency.faults import Faults
from bench.latency.proxy import Proxy
from blockstore.care.verify import verify
from blockstore.compactor.by_hand import clean_once
from blockstore.errors import NotFound
from blockstore.operations.contents import Discovery
from tests.end_to_end.faulty_world import (
    CHANGER,
    Done,
    Stop,
    opened,
    problems_of,
    see,
    sent_changes,
)
from tests.end_to_end.gateways import GatewayProcess
from tests.end_to_end.killed_world import SCHEMA, noted

__all__ = ["Report", "run", "server"]

ROOT = Path(__file__).parent.parent.parent
ROWS = 1_500
PROPERTIES = {"sync_delay": "2s", "delete_delay": "40s", "history_retention": "30s"}
PATIENCE_S = 180.0
WITHIN_S = 60.0
TYPED = {409, 410, 413, 422, 429, 500, 503, 504}
"""The statuses of a gateway's errors; each has a body that says which."""
COMPACTOR, READER, GATEWAY = 901, 950, 990


@dataclass
class Report:
    """What a run did and found."""

    requests: int = 0
    injected: dict[Fault, int] = field(default_factory=dict)
    operations: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    resolved: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict)
    checked: int = 0
    """Reads that were compared with the same version beside the proxy."""
    expired: int = 0
    """Reads of versions that were collected before they were compared."""
    batches: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    """What is no violation and may matter: what verify warns of, blocks kept from merges."""
    violations: list[str] = field(default_factory=list)

    def percentile_ms(self, what: str, share: float) -> float:
        """The time within which this share of the operations was done."""
        ordered = sorted(self.seconds.get(what, [])) or [0.0]
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1_000

    def lines(self) -> Iterator[str]:
        """The report as text; the last line sums it up."""
        yield "injected: " + counts({str(kind): n for kind, n in self.injected.items()})
        yield "done: " + counts(self.operations)
        yield f"failed by class: {counts(self.failed)}; {self.resolved} resolved afterwards"
        for name, message in sorted(self.examples.items()):
            yield f"  {name}: {message}"
        yield "batches: " + counts(self.batches)
        for what in ("append", "point", "scan", "sql"):
            p50, p99 = (self.percentile_ms(what, share) for share in (0.5, 0.99))
            yield f"{what}: p50 {p50:.0f} ms, p99 {p99:.0f} ms"
        yield f"{self.checked} reads compared with their version, {self.expired} too late for it"
        for line in self.notes:
            yield f"  note: {line}"
        for line in self.violations[:20]:
            yield f"  VIOLATION: {line}"
        yield (
            f"{self.requests} requests, {sum(self.injected.values())} faults, "
            f"{sum(self.operations.values())} operations done, "
            f"{sum(self.failed.values())} failed, {len(self.violations)} violations"
        )


def counts(numbers: dict[str, int] | Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(numbers.items())) or "none"


class _Run:
    """One run on the server that the environment names."""

    def __init__(self, url: str, folder: Path, writers: int, readers: int) -> None:
        self.url = f"{url}/lake/t"
        self.lake = f"{url}/lake"
        self.folder = folder
        self.writers, self.readers = writers, readers
        self.report = Report()
        self.lock = threading.Lock()
        self.judged: dict[str, int] = {}
        self.counts: dict[int, int] = {}
        bs.create(
            self.url, schema=SCHEMA, sort_by=["writer", "batch", "row"], properties=PROPERTIES
        )

    def go(self, proxy: Proxy, faults: Faults, seconds: float, *, with_gateway: bool) -> Report:
        environment = {"AWS_ENDPOINT_URL": proxy.endpoint, "PYTHONPATH": str(ROOT)}
        with ExitStack() as stack:
            gateway = None
            if with_gateway:
                settings = {"BLOCKSTORE_JOBS_ENABLED": "false", **environment}
                gateway = stack.enter_context(
                    GatewayProcess(self.lake, self.folder, "gateway", **settings)
                )
            roles = [("write", number) for number in range(self.writers)]
            roles += [("change", CHANGER), ("compact", COMPACTOR)]
            roles += [("read", READER + number) for number in range(self.readers)]
            processes = [self._start(*role, environment) for role in roles]
            for process in processes:
                assert process.stdout is not None, "it is a pipe"
                assert process.stdout.readline() == "ready\n"
            proxy.reset()
            proxy.inject(faults)
            until = time.monotonic() + seconds
            threads = [threading.Thread(target=self._watch, args=(until,))]
            if gateway is not None:
                threads.append(threading.Thread(target=self._ask, args=(gateway, until)))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.report.injected = proxy.inject(None)
            self.report.requests = proxy.take().requests
            (self.folder / "stop").touch()
            for process in processes:
                self._collect(process)
        self._end()
        return self.report

    def _start(self, role: str, number: int, more: dict[str, str]) -> subprocess.Popen[str]:
        words = ["-m", "tests.end_to_end.faulty_world", role, self.url, str(number)]
        return subprocess.Popen(
            [sys.executable, *words, str(self.folder), str(ROWS)],
            cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, **more},
        )  # fmt: skip

    def _collect(self, process: subprocess.Popen[str]) -> None:
        out, _ = process.communicate(timeout=PATIENCE_S)
        if process.returncode:
            self._violated([f"a process ended with {process.returncode}: {process.args}"])
            return
        said = json.loads(out)
        self.report.operations.update(said["operations"])
        self.report.failed.update(said["failed"])
        self.report.examples = {**said["examples"], **self.report.examples}
        self.report.resolved += said["resolved"]
        for what, seconds in said["seconds"].items():
            self.report.seconds.setdefault(what, []).extend(seconds)
        self._violated(said["problems"])

    def _violated(self, problems: list[str]) -> None:
        with self.lock:
            self.report.violations += problems

    def _watch(self, until: float) -> None:
        """Beside the proxy: snapshots of now, and the versions that readers saw."""
        table = opened(self.url, Done(), Stop(self.folder))
        while time.monotonic() < until:
            before, changed = noted(self.folder, "acknowledged"), sent_changes(self.folder, "done")
            found = table.snapshot().scan(columns=["writer", "batch", "row"]).to_table()
            problems = problems_of(found, before, self.folder, changed, ROWS)
            self._violated([f"beside the proxy: {one}" for one in problems])
            self._judge(table)
            time.sleep(1.0)

    def _judge(self, table: bs.Table) -> None:
        """Compare what was read with the same version, read where no faults are."""
        for path in sorted(self.folder.glob("seen-*")):
            lines = path.read_text().split("\n")[:-1]
            begin = self.judged.get(path.name, 0)
            self.judged[path.name] = len(lines)
            for seen in map(json.loads, lines[begin:]):
                version = seen["version"]
                try:
                    right = self._rows_at(table, version)
                except NotFound:
                    self.report.expired += 1
                    continue
                self.report.checked += 1
                if seen["rows"] != right:
                    self._violated([f"version {version}: read {seen['rows']} rows, not {right}"])

    def _rows_at(self, table: bs.Table, version: int) -> int:
        if version not in self.counts:
            found = table.snapshot(version=version).scan(columns=["row"]).to_table()
            self.counts[version] = found.num_rows
        return self.counts[version]

    def _ask(self, gateway: GatewayProcess, until: float) -> None:
        """The count by SQL, through the gateway."""
        with httpx.Client(base_url=gateway.url, timeout=120) as client:
            while time.monotonic() < until:
                begun = time.monotonic()
                sql = {"sql": f"select count(*) as c, sum(row) from t where row > -{begun:.6f}"}
                answer = client.post("/v1/query", json=sql, headers={"Accept": "application/json"})
                if answer.status_code == 200:
                    [row] = answer.json()
                    version = json.loads(answer.headers["x-blockstore-versions"])["t"]
                    see(self.folder, GATEWAY, version=version, rows=row["c"])
                    self.report.operations["sql"] += 1
                    self.report.seconds.setdefault("sql", []).append(time.monotonic() - begun)
                    continue
                said = answer.json() if answer.status_code in TYPED else {}
                name = f"gateway {answer.status_code} {said.get('error')}"
                self.report.failed[name] += 1
                self.report.examples.setdefault(name, str(said.get("message")))
                if "message" not in said:
                    self._violated([f"the gateway: {answer.status_code}: {answer.text[:300]}"])

    def _end(self) -> None:
        """Everything that was acknowledged, exactly once; by the index and by listing."""
        must = noted(self.folder, "acknowledged") | noted(self.folder, "late")
        no = noted(self.folder, "refused")
        for kind in ("acknowledged", "late", "refused", "unknown"):
            self.report.batches[kind] = len(noted(self.folder, kind))
        table = bs.open(self.url)
        self._judge(table)
        self._wait_for_the_late(table)
        changed = sent_changes(self.folder, "done")
        for discovery in Discovery:
            again = bs.open(self.url, discovery=discovery)
            found = again.snapshot().scan(columns=["writer", "batch", "row"]).to_table()
            problems = problems_of(found, must, self.folder, changed, ROWS)
            seen = {*zip(found["writer"].to_pylist(), found["batch"].to_pylist(), strict=True)}
            problems += [f"batch {one} was refused and is there" for one in sorted(no & seen)]
            self._violated([f"at the end, by {discovery}: {one}" for one in problems[:10]])
        for finding in verify(table.bucket, table.world, deep=True):
            where = self.report.notes if finding.severity.name != "ERROR" else []
            where.append(f"verify: {finding}")
            if finding.severity.name == "ERROR":
                self._violated(where)
        marks = [info.key for info in table.bucket.list("") if "no-compact" in info.key]
        self.report.notes += [f"kept from merges: {key}" for key in marks]

    def _wait_for_the_late(self, table: bs.Table) -> None:
        """Acknowledged batches that no entry names become visible by their age."""
        until = time.monotonic() + WITHIN_S
        late = noted(self.folder, "late")
        while late and time.monotonic() < until:
            clean_once(table, objects_per_s=1e6)
            found = table.snapshot().scan(columns=["writer", "batch"]).to_table()
            if late <= {*zip(found["writer"].to_pylist(), found["batch"].to_pylist(), strict=True)}:
                return
            time.sleep(0.5)


def run(
    url: str,
    folder: Path,
    *,
    seconds: float,
    delay_ms: float,
    faults: Faults,
    writers: int,
    readers: int,
    with_gateway: bool = True,
) -> Report:
    """One run on a fresh place of the server that the environment names."""
    with Proxy.between(os.environ["AWS_ENDPOINT_URL"], delay_ms=delay_ms) as proxy:
        return _Run(url, folder, writers, readers).go(
            proxy, faults, seconds, with_gateway=with_gateway
        )


@contextmanager
def server(folder: Path, kind: str) -> Iterator[str]:
    """A server of its own in the environment; gives the URL of a bucket on it."""
    import boto3

    script, root = ROOT / "scripts" / "s3-server", folder / "server"
    words = [str(script), "start", kind, "--root", str(root), "--while", str(os.getpid())]
    started = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    for line in started.stdout.splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        os.environ[name] = shlex.split(value)[0]
    try:
        boto3.client("s3").create_bucket(Bucket="faults")
        yield "s3://faults/run"
    finally:
        subprocess.run([str(script), "stop", "--root", str(root)], check=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--delay", type=float, default=25, help="of each request, in ms")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["weed", "rgw"], default="weed")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--readers", type=int, default=2)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, server(Path(folder), given.store) as url:
        (place := Path(folder) / "run").mkdir()
        report = run(
            url, place, seconds=given.seconds, delay_ms=given.delay, faults=Faults(seed=given.seed),
            writers=given.writers, readers=given.readers,
        )  # fmt: skip
    print("\n".join(report.lines()))
    return 1 if report.violations or not report.injected else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
