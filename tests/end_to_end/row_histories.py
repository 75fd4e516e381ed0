"""Clients that append to lists in rows, as processes that are killed at random moments: what they
read and wrote is what snapshot isolation allows.

    python -m tests.end_to_end.row_histories [--seconds N] [--clients N] [--seed S] [--url URL]
    python -m tests.end_to_end.row_histories --careless   a planted lost update

Each client notes a transaction in a file before it begins, and what it read when it has ended;
one that does not end is neither acknowledged nor refused. A killed client is followed by another
one at once. At the end all lists are read, and the checker looks at the complete history.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import blockstore as bs
from blockstore.bucket import open_bucket
from blockstore.index import log as index_log
from blockstore.world import World
from tests.support.elle import OK, UNKNOWN, Transaction, problems
from tests.support.lists import Client, definition, fill, lists_of, transactions

ROWS = 4
PATIENCE_S = 60.0


@dataclass
class Histories:
    """What a series did."""

    kills: int = 0
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
    careless: bool = False,
) -> Histories:
    """The whole series; what it found wrong is in ``problems``."""
    rng, done = random.Random(seed), Histories()
    url = url or f"{folder}/table?durable=false"
    world = World.real()
    index_log.create(open_bucket(url, world), world, definition(row_ids=seed % 2 == 1))
    fill(bs.open(url), ROWS)
    lives = 0
    processes: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        nonlocal lives
        lives += 1
        words = ["-m", "tests.end_to_end.row_histories", "--client", str(lives)]
        words += ["--url", url, "--folder", str(folder), *(["--careless"] if careless else [])]
        return subprocess.Popen([sys.executable, *words], text=True)

    until = time.monotonic() + seconds
    try:
        processes += [start() for _ in range(clients)]
        while time.monotonic() < until:
            time.sleep(rng.uniform(0.1, 1.0))
            place = rng.randrange(clients)
            if log_of(folder, lives - rng.randrange(clients)).exists():
                processes[place].kill()
                processes[place].wait(PATIENCE_S)
                done.kills += 1
                processes[place] = start()
        wait_for_work(folder, lives)
    finally:
        (folder / "stop").touch()
        codes = [process.wait(PATIENCE_S) for process in processes]
    done.problems += [f"a client ended with {code}" for code in codes if code]
    for number in range(1, lives + 1):
        done.history += transactions(lines_of(log_of(folder, number)))
    done.problems += problems(done.history, lists_of(bs.open(url)))
    return done


def wait_for_work(folder: Path, last: int) -> None:
    """Until the client that started last has done something."""
    until = time.monotonic() + PATIENCE_S
    while not log_of(folder, last).exists() and time.monotonic() < until:
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
    parser.add_argument("--url")
    parser.add_argument("--careless", action="store_true")
    parser.add_argument("--client", type=int)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    if asked.client is not None:
        client(asked.url, asked.client, asked.folder, careless=asked.careless)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        done = run(
            Path(folder),
            seconds=asked.seconds,
            clients=asked.clients,
            seed=asked.seed,
            url=asked.url,
            careless=asked.careless,
        )
    print(
        f"row-histories: {len(done.history):,} transactions, {done.count(OK):,} changes, "
        f"{done.count(UNKNOWN)} of unknown result, {done.kills} kills, "
        f"{len(done.problems)} problems"
    )
    for problem in done.problems[:20]:
        print(f"  {problem}")
    return 1 if done.problems else 0


if __name__ == "__main__":
    sys.exit(main())
