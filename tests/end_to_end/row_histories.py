"""Clients that append to lists in rows, as processes that are killed at random moments: what they
read and wrote is what the table's isolation allows.

    python -m tests.end_to_end.row_histories [--seconds N] [--clients N] [--seed S]
    python -m tests.end_to_end.row_histories --transactions 20000 --clients 16 [--store weed]
    python -m tests.end_to_end.row_histories --isolation serializable
    python -m tests.end_to_end.row_histories --careless   a planted lost update

Each client notes a transaction in a file before it begins, and what it read when it has ended; one
that does not end is neither acknowledged nor refused. A compactor merges meanwhile. A killed
process is followed by another one at once. At the end all lists are read, and the checker looks at
the complete history.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import blockstore as bs
from blockstore.bucket import open_bucket
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.format.properties import Isolation
from blockstore.index import log as index_log
from blockstore.world import World
from tests.end_to_end.s3_faults import server
from tests.support.elle import FAILED, OK, UNKNOWN, Transaction, problems
from tests.support.lists import Client, definition, fill, lists_of, transactions

ROWS = 12
"""Lists of a short series."""
PATIENCE_S = 120.0
COMPACTOR = 0
"""The compactor's place among the processes; clients have numbers from 1."""


@dataclass
class Histories:
    """What a series did."""

    kills: int = 0
    merges: int = 0
    history: list[Transaction] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def count(self, outcome: str) -> int:
        """The changes that ended so."""
        return sum(bool(one.appends) and one.outcome == outcome for one in self.history)


def run(
    folder: Path,
    *,
    seconds: float,
    clients: int,
    seed: int,
    url: str | None = None,
    many: int | None = None,
    careless: bool = False,
    isolation: Isolation = Isolation.WRITE_SERIALIZABLE,
) -> Histories:
    """The whole series, which ends after so many transactions, or seconds; what it found wrong is
    in ``problems``."""
    rng, done = random.Random(seed), Histories()
    url = url or f"{folder}/table?durable=false"
    world = World.real()
    made = definition(row_ids=seed % 2 == 1, isolation=isolation)
    index_log.create(open_bucket(url, world), world, made)
    fill(bs.open(url), ROWS if many is None else ROWS + many // 16)
    lives = 0
    processes: list[tuple[int, subprocess.Popen[str]]] = []

    def start(number: int | None = None) -> tuple[int, subprocess.Popen[str]]:
        nonlocal lives
        lives += number is None
        number = lives if number is None else number
        words = ["-m", "tests.end_to_end.row_histories", "--client", str(number)]
        words += ["--url", url, "--folder", str(folder), *(["--careless"] if careless else [])]
        return number, subprocess.Popen([sys.executable, *words], text=True)

    try:
        processes += [start(COMPACTOR), *(start() for _ in range(clients))]
        for number, _ in processes:
            wait_for_work(folder, number)
        until = time.monotonic() + seconds
        while time.monotonic() < until and (many is None or ended(folder, lives) < many):
            time.sleep(rng.uniform(0.1, 1.0) * clients)
            place = rng.randrange(len(processes))
            number, process = processes[place]
            if log_of(folder, number).exists():
                process.kill()
                process.wait(PATIENCE_S)
                done.kills += 1
                processes[place] = start(COMPACTOR if number == COMPACTOR else None)
        wait_for_work(folder, lives)
    finally:
        (folder / "stop").touch()
        codes = [process.wait(PATIENCE_S) for _, process in processes]
    done.problems += [f"a process ended with {code}" for code in codes if code]
    done.merges = len(lines_of(log_of(folder, COMPACTOR)))
    for number in range(1, lives + 1):
        done.history += transactions(lines_of(log_of(folder, number)))
    strict = isolation is Isolation.SERIALIZABLE
    done.problems += problems(done.history, lists_of(bs.open(url)), serializable=strict)
    return done


def ended(folder: Path, lives: int) -> int:
    """How many transactions have ended."""
    logs = (log_of(folder, number) for number in range(1, lives + 1))
    return sum(log.read_bytes().count(b'{"end"') for log in logs if log.exists())


def wait_for_work(folder: Path, number: int) -> None:
    """Until a process has begun to work."""
    until = time.monotonic() + PATIENCE_S
    while not log_of(folder, number).exists() and time.monotonic() < until:
        time.sleep(0.05)


def client(url: str, number: int, folder: Path, *, careless: bool) -> None:
    """One client, until the file ``stop`` is there."""
    with log_of(folder, number).open("a") as log:

        def note(line: dict[str, Any]) -> None:
            log.write(json.dumps(line) + "\n")
            log.flush()

        one = Client(bs.open(url), number, random.Random(number), note, careless=careless)
        while not (folder / "stop").exists():
            one.step()


def compact(url: str, folder: Path) -> None:
    """A compactor, until the file ``stop`` is there; it notes each merge."""
    table = bs.open(url)
    work = folder / f"work-{time.monotonic_ns()}"
    work.mkdir()
    settings = Settings(tier_blocks=4, work_dir=work, memory_bytes=64 << 20, concurrency=1)
    with log_of(folder, COMPACTOR).open("a") as log:
        while not (folder / "stop").exists():
            for result in compact_once(table, settings).results:
                log.write(json.dumps({"merge": str(result.job.reason)}) + "\n")
            log.flush()
            time.sleep(0.2)


def log_of(folder: Path, number: int) -> Path:
    return folder / f"client-{number:04}"


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, without one that was cut off."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--transactions", type=int, help="end after so many")
    parser.add_argument("--store", choices=["weed", "rgw"], help="an S3 server; default: a folder")
    parser.add_argument("--url")
    parser.add_argument("--careless", action="store_true")
    parser.add_argument("--isolation", type=Isolation, default=Isolation.WRITE_SERIALIZABLE)
    parser.add_argument("--client", type=int)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    if asked.client is not None:
        if asked.client == COMPACTOR:
            compact(asked.url, asked.folder)
        else:
            client(asked.url, asked.client, asked.folder, careless=asked.careless)
        return 0
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        url = None if asked.store is None else held.enter_context(server(folder, asked.store))
        done = run(
            folder,
            seconds=asked.seconds,
            clients=asked.clients,
            seed=asked.seed,
            url=url,
            many=asked.transactions,
            careless=asked.careless,
            isolation=asked.isolation,
        )
    print(
        f"row-histories: {len(done.history):,} transactions, {done.count(OK):,} changes, "
        f"{done.count(FAILED):,} refused, {done.count(UNKNOWN)} of unknown result, "
        f"{done.kills} kills, {done.merges:,} merges, {len(done.problems)} problems"
    )
    for problem in done.problems[:20]:
        print(f"  {problem}")
    return 1 if done.problems or not done.kills or not done.count(OK) else 0


if __name__ == "__main__":
    sys.exit(main())
