"""A follower of a table that is killed again and again, while the table is changed, merged and
cleaned: at the end each change was applied once.

``python -m tests.end_to_end.feed_killing --kills 50 --commits 10000 --seed 1`` prints what it did,
and ends with 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import blockstore as bs
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.index.epochs import COMPACTOR, claim
from tests.end_to_end.feed_follower import COPY

ROOT = Path(__file__).parent.parent.parent
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
KEYS = 40
REST = 4
"""Tending pauses for so many times as long as a round took. A round lists all objects, and they
become ever more: without longer pauses it would take most of a long series."""
CATCHES_UP_S = 1_800.0


@dataclass
class Series:
    """What a series did and found."""

    commits: int = 0
    changes: int = 0
    kills: int = 0
    merges: int = 0
    violations: list[str] = field(default_factory=list)


class Source:
    """The table that is followed, with what was done to it."""

    def __init__(self, url: str, chance: random.Random) -> None:
        self.table = bs.create(url, schema=SCHEMA, key="id")
        self.rows: dict[int, int] = {}
        self.changes: Counter[int] = Counter()
        self._chance = chance

    def commit(self) -> None:
        """Change some rows in one version, or delete some."""
        some = self._chance.sample(range(KEYS), self._chance.randint(1, 6))
        if self._chance.random() < 0.3:
            self.table.delete_rows(some)
            gone = [one for one in some if self.rows.pop(one, None) is not None]
            self.changes.update(gone)
            return
        new = {one: self._chance.randrange(1000) for one in some}
        rows = pa.table({"id": list(new), "n": list(new.values())}, SCHEMA)
        self.table.upsert(rows)
        self.rows |= new
        self.changes.update(some)


def run(folder: Path, *, kills: int, commits: int, seed: int) -> Series:
    """Change a table by ``commits`` versions beside a follower that is killed ``kills`` times."""
    series, chance = Series(), random.Random(seed)
    source = Source(f"{folder}/source?durable=false", chance)
    copy = bs.create(f"{folder}/copy?durable=false", schema=COPY, key="id")
    ended = threading.Event()
    tables = {"source": source.table.url, "copy": copy.url}
    tending = threading.Thread(target=_tend, args=(tables, folder, ended, series))
    tending.start()
    words = [sys.executable, "-m", "tests.end_to_end.feed_follower"]

    def follow(until: int) -> subprocess.Popen[bytes]:
        urls = [source.table.url, copy.url]
        return subprocess.Popen([*words, *urls, str(until)], cwd=ROOT)

    endless = 1 << 40
    follower = follow(endless)
    due = sorted(chance.sample(range(commits // 10, commits), kills))
    try:
        for number in range(commits):
            source.commit()
            series.commits += 1
            if due and number == due[0]:
                due.pop(0)
                ended.wait(chance.uniform(0.5, 2.0))  # so that it has begun, and is somewhere
                if follower.poll() is not None:
                    series.violations.append(f"the follower ended with {follower.returncode}")
                follower.send_signal(signal.SIGKILL)
                follower.wait()
                series.kills += 1
                follower = follow(endless)
        follower.kill()
        follower.wait()
        # Tending goes on: a copy of which nothing is merged becomes slower with each version.
        follower = follow(source.table.poll())
        if follower.wait(timeout=CATCHES_UP_S) != 0:
            series.violations.append("the last follower failed")
    finally:
        ended.set()
        tending.join()
        follower.kill()
        follower.wait()
    series.changes = source.changes.total()
    copy.poll()
    found = copy.snapshot().scan(columns=COPY.names).to_table().to_pylist()
    rows = {row["id"]: row["n"] for row in found if row["n"] is not None}
    if rows != source.rows:
        series.violations.append(f"the copy has {rows}, expected {source.rows}")
    told = {row["id"]: row["changes"] for row in found}
    if told != dict(source.changes):
        series.violations.append(f"changes applied: {told}, made: {dict(source.changes)}")
    return series


def _tend(tables: dict[str, str], folder: Path, ended: threading.Event, series: Series) -> None:
    """Merge and clean both tables all the while."""
    tended = []
    for name, url in tables.items():
        table = bs.open(url)
        cleaner = Cleaner(table, claim(table.log, table.world, COMPACTOR))
        tended.append((table, cleaner, Settings(tier_blocks=2, work_dir=folder / f"work-{name}")))
    took_s = 0.0
    while not ended.wait(max(0.2, REST * took_s)):
        began_s = time.monotonic()
        for table, cleaner, settings in tended:
            table.poll()
            series.merges += len(compact_once(table, settings).results)
            cleaner.run()
        took_s = time.monotonic() - began_s


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        done = run(Path(place), kills=given.kills, commits=given.commits, seed=given.seed)
    print(
        f"{done.commits:,} commits, {done.changes:,} changes, {done.merges:,} merges, "
        f"{done.kills} kills, {len(done.violations)} violations"
    )
    print("\n".join(done.violations))
    sys.exit(1 if done.violations else 0)
