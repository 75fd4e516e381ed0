"""Spark jobs whose processes are killed: Python workers, executors and drivers, at named points.

    python -m tests.end_to_end.spark_killing --kills 30 --seed 1

A table of batches is written by jobs on a real cluster of processes (``local-cluster[2,1,1024]``),
every job exactly once (app and batch), appends and overwrites in turn. In each job one process is
killed with SIGKILL; a worker's or an executor's work is done again by Spark, and a killed driver's
job is run again by a new driver. All through a reader polls: of each batch it must see all rows of
before or all of after, each once. Any step past its deadline, and any other row, is a violation;
the last line says how many there were.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import blockstore as bs
from tests.end_to_end.spark_driver import PARTITIONS

ROOT = Path(__file__).parent.parent.parent
SCHEMA = pa.schema([("batch", pa.int64()), ("id", pa.int64())])
ROWS = 40_000
"""Of one job: so many that batches reach the writing worker while their task still waits."""
DEADLINE_S = 300.0
POINTS = (
    ("worker", "chunks"),
    ("executor", "chunks"),
    ("driver", "chunks"),
    ("driver", "before-meta"),
    ("driver", "before-entry"),
    ("driver", "after-entry"),
)


@dataclass
class Report:
    """What happened."""

    kills: list[str] = field(default_factory=list)
    reads: int = 0
    stages: int = 0
    """Stages that Spark ran again."""
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{len(self.kills)} kills, {self.stages} stages run again, {self.reads} reads, "
            f"{len(self.violations)} violations"
        )


Rows = tuple[int, int, int, int]
"""What is looked at of a batch's rows: how many, how many different, the least and the greatest."""
NO_ROWS: Rows = (0, 0, 0, 0)


def all_of(first: int) -> Rows:
    """The rows of one job."""
    return (ROWS, ROWS, first, first + ROWS - 1)


def rows_by_batch(table: pa.Table) -> dict[int, Rows]:
    """What a reader sees."""
    kinds = ("count", "count_distinct", "min", "max")
    found = table.group_by("batch").aggregate([("id", kind) for kind in kinds]).to_pylist()
    return {one["batch"]: tuple(one[f"id_{kind}"] for kind in kinds) for one in found}  # type: ignore[misc]


class Allowed:
    """The rows that a reader may see, by batch: before a job ended, and after."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sets: dict[int, list[Rows]] = defaultdict(lambda: [NO_ROWS])

    def also(self, batch: int, rows: Rows) -> None:
        """From now on these, too, may be the rows of the batch."""
        with self._lock:
            self._sets[batch] = [*self._sets[batch], rows]

    def only(self, batch: int, rows: Rows) -> None:
        """From now on only these may."""
        with self._lock:
            self._sets[batch] = [rows]

    def copy(self) -> dict[int, list[Rows]]:
        """What may be seen at this moment."""
        with self._lock:
            return {batch: list(sets) for batch, sets in self._sets.items()}

    def newest(self, batch: int) -> Rows:
        """What was allowed last."""
        with self._lock:
            return self._sets[batch][-1]


def wrong(found: dict[int, Rows], *allowed: dict[int, list[Rows]]) -> list[str]:
    """What of the rows none of these allows."""
    told = []
    for batch in sorted({*found, *(batch for one in allowed for batch in one)}):
        sets = {rows for one in allowed for rows in one.get(batch, [NO_ROWS])}
        seen = found.get(batch, NO_ROWS)
        if seen not in sets:
            told.append(
                f"batch {batch}: {seen} (rows, different, least, greatest), allowed: {sorted(sets)}"
            )
    return told


class Reader:
    """Polls all through, in a thread of its own."""

    def __init__(self, url: str, allowed: Allowed, report: Report) -> None:
        self._url, self._allowed, self._report = url, allowed, report
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)

    def _poll(self) -> None:
        table = bs.open(self._url)
        while not self._ended.wait(0.1):
            # Whatever was allowed while it read: a job may be told done in the middle of it.
            before = self._allowed.copy()
            try:
                table.poll()
                found = rows_by_batch(table.snapshot().scan().to_table())
            except bs.BlockstoreError as error:
                self._report.violations.append(f"a read failed: {type(error).__name__}: {error}")
                continue
            self._report.reads += 1
            self._report.violations += wrong(found, before, self._allowed.copy())


class Driver:
    """A driver process and what it started, in a process group of its own."""

    def __init__(self, url: str, folder: Path, master: str) -> None:
        self._log = (folder / "driver.log").open("ab")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "ignore",
                "-m",
                "tests.end_to_end.spark_driver",
                url,
                str(folder),
                master,
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._news = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()
        self.expect("ready")

    def send(self, job: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()

    def expect(self, *starts: str) -> str:
        """The next line that starts with one of these."""
        with self._news:
            if not self._news.wait_for(
                lambda: any(line.startswith(starts) for line in self._lines), DEADLINE_S
            ):
                raise TimeoutError(f"the driver said {self._lines}, expected {starts}")
            at = next(at for at, line in enumerate(self._lines) if line.startswith(starts))
            found = self._lines[at]
            del self._lines[: at + 1]
            return found

    def kill(self) -> None:
        """SIGKILL the user's process: the driver's JVM and the executors are left to notice."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Nothing of it is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._log.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError):
            for line in self.process.stdout:
                with self._news:
                    self._lines.append(line.rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._lines.append("ended")
            self._news.notify_all()


def kill_series(
    kills: int,
    seed: int,
    folder: Path,
    say: Callable[[str], None] = print,
    *,
    only_drivers_alone: bool = False,
) -> Report:
    """So many kills, the points in a shuffled order, every one before any comes again.

    With ``only_drivers_alone`` drivers are killed last, and those that follow have no cluster: they
    start in half the time.
    """
    url = str(folder / "table")
    bs.create(url, schema=SCHEMA, sort_by=["batch", "id"])
    report, allowed = Report(), Allowed()
    draw = random.Random(seed)
    points: list[tuple[str, str]] = []
    while len(points) < kills:
        points += draw.sample(POINTS, len(POINTS))
    if only_drivers_alone:
        points = sorted(points[:kills], key=lambda one: one[0] == "driver")
    started: list[Driver] = []
    try:
        with Reader(url, allowed, report):
            for number, (victim, point) in enumerate(points[:kills]):
                alone = only_drivers_alone and victim == "driver"
                master = "local[2]" if alone else "local-cluster[2,1,1024]"
                if not started or started[-1].process.poll() is not None:
                    started.append(Driver(url, folder, master))
                overwrite = number > 0 and draw.random() < 0.5
                _one(
                    url, folder, master, started, report, allowed, number, victim, point, overwrite
                )
                say(f"{number + 1:3} of {kills}: {report.kills[-1]}; {report}")
    finally:
        for driver in started:
            driver.end()
    return report


def _one(
    url: str,
    folder: Path,
    master: str,
    drivers: list[Driver],
    report: Report,
    allowed: Allowed,
    number: int,
    victim: str,
    point: str,
    overwrite: bool,
) -> None:
    """One job, one kill, and the look that follows."""
    batch = number - 1 if overwrite else number
    ids = all_of(ROWS * number)
    before = allowed.newest(batch)
    job = {
        "number": number,
        "batch": batch,
        "first": ROWS * number,
        "rows": ROWS,
        "overwrite": overwrite,
        "wait": point == "chunks",
        "stop": "" if point == "chunks" else point,
    }
    report.kills.append(f"{victim} at {point}, {'overwrite' if overwrite else 'append'}")
    driver = drivers[-1]
    if point != "after-entry":
        _expect(url, report, batch, before, "before the job")
    allowed.also(batch, ids)
    driver.send(job)
    if point == "chunks":
        worker = _worker(folder, number)
        if victim == "driver":
            driver.kill()
        else:
            os.kill(worker if victim == "worker" else _executor_of(worker), signal.SIGKILL)
            (folder / f"{number}-go").touch()
            _done(driver, report)
    else:
        driver.expect(f"at {point}")
        driver.kill()
    if victim == "driver":
        (folder / f"{number}-go").touch()
        _expect(
            url,
            report,
            batch,
            ids if point == "after-entry" else before,
            f"after {report.kills[-1]}",
        )
        drivers.append(Driver(url, folder, master))
        drivers[-1].send({**job, "wait": False, "stop": ""})
        already = _done(drivers[-1], report)
        if already != (point == "after-entry"):
            report.violations.append(
                f"job {number} was {'' if already else 'not '}done before its second run"
            )
    _expect(url, report, batch, ids, f"after {report.kills[-1]} and its retry")
    allowed.only(batch, ids)


def _done(driver: Driver, report: Report) -> bool:
    line = driver.expect("done", "failed", "ended")
    if not line.startswith("done"):
        report.violations.append(f"a job ended badly: {line}")
        return False
    told = json.loads(line.removeprefix("done "))
    report.stages += told["stages"]
    return bool(told["already"])


def _expect(url: str, report: Report, batch: int, rows: Rows, when: str) -> None:
    """What a fresh reader sees of the batch, by the index and by a listing."""
    for discovery in ("index", "list"):
        found = (
            bs.open(url, discovery=discovery).snapshot().scan(where=f"batch = {batch}").to_table()
        )
        seen = rows_by_batch(found).get(batch, NO_ROWS)
        if seen != rows:
            report.violations.append(
                f"{when}, by {discovery}: batch {batch} is {seen}, expected {rows}"
            )


def _worker(folder: Path, number: int) -> int:
    """The Python worker of a task of which a chunk lies in the bucket."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for partition in range(PARTITIONS):
            place = folder / f"{number}-{partition}"
            if place.exists():
                return int(place.read_text())
        time.sleep(0.02)
    raise TimeoutError(f"no task of job {number} sent a chunk")


def _executor_of(worker: int) -> int:
    """The JVM that runs a Python worker: above the daemon that forked it."""
    process = worker
    while True:
        process = _parent(process)
        if process <= 1:
            raise RuntimeError(f"process {worker} has no JVM above it")
        if "java" in Path(f"/proc/{process}/exe").resolve().name:
            return process


def _parent(process: int) -> int:
    # The name of the command may hold anything, also blanks and brackets.
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="spark-killing-"))
    try:
        report = kill_series(asked.kills, asked.seed, folder, lambda line: print(line, flush=True))
        log = (folder / "driver.log").read_text(errors="replace") if report.violations else ""
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(log, end="")
    for violation in report.violations:
        print(f"violation: {violation}")
    print(f"spark-killing: seed {asked.seed}, {report}")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
