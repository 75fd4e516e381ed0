"""A compactor process killed at random moments, again and again, while four writers append and two
readers compare.

    python -m tests.end_to_end.compactor_killing [--kills N] [--seed S]

The table's delays are two seconds, so that merging, publishing, marking, removing and collecting
all happen all the time. Most kills wait for the log to say that a merge (with its upload and
commit) or a removal has begun. At the end the compactor comes to rest, a last pass runs on a clock
that was moved on by days, and then: every acknowledged row exactly once, by the index and by
listing, and nothing in the bucket that no version names.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import blockstore as bs
from blockstore.bucket import open_bucket
from blockstore.clock import SystemClock
from blockstore.compactor.by_hand import clean_once
from blockstore.compactor.merge.workdir import clear_abandoned
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.ids import Ids
from blockstore.lifecycle.listing import list_directories
from blockstore.operations.contents import Discovery
from blockstore.table import Table
from blockstore.world import Threads, World
from tests.end_to_end.killed_world import SCHEMA, compare, noted

WRITERS, READERS, ROWS = 4, 2, 300
PATIENCE_S = 120.0
"""For anything that is waited for; a busy machine is slow."""

PROPERTIES = {"sync_delay": "2s", "delete_delay": "3s", "history_retention": "2s"}
CONFIG = """
[compactor]
tier_blocks = 3
memory = "64MiB"
concurrency = 2
work_dir = "{work}"
[loops]
tables = "1s"
interval = "200ms"
clean = "300ms"
index = "500ms"
backlog = "1s"
retry = "100ms"
retry_most = "1s"
grace = "5s"
[http]
listen = ""
[log]
style = "json"
"""
AT_WORK = {"merging ": ("merged ", "not merged"), "removing ": ("removed ",)}
"""What the log says when something begins, and when it has ended."""


@dataclass
class Killed:
    """What a series did."""

    kills: int = 0
    at_work: int = 0
    """Kills of which the log says that a merge, its upload or a removal was under way."""
    during: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    polls: int = 0
    stale: int = 0
    seconds: float = 0.0
    blocks: int = 0
    problems: list[str] = field(default_factory=list)


class Shifted:
    """The machine's clock, some days ahead.

    No SystemClock, so that a folder's time is this one, and not its file system's.
    """

    def __init__(self, days: float) -> None:
        self._ms = round(days * 86_400_000)
        self._machine = SystemClock()

    def now_ms(self) -> int:
        return self._machine.now_ms() + self._ms

    def monotonic_s(self) -> float:
        return self._machine.monotonic_s()

    def sleep(self, seconds: float) -> None:
        self._machine.sleep(seconds)


def shifted(days: float) -> World:
    clock = Shifted(days)
    return World(clock=clock, ids=Ids(clock), pool=Threads(4))


class Log:
    """The log file of one life of the compactor."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[str]:
        """The messages, as far as they are whole."""
        messages = []
        for line in self.path.read_text(errors="replace").split("\n")[:-1]:
            with contextlib.suppress(json.JSONDecodeError):
                messages.append(json.loads(line)["message"])
        return messages

    def under_way(self) -> list[str]:
        """What had begun and not ended."""
        going: dict[str, bool] = {}
        for message in self.lines():
            for begin, ends in AT_WORK.items():
                if message.startswith(begin):
                    going[begin] = True
                elif message.startswith(ends):
                    going[begin] = False
        return [begin.strip() for begin, open_ in going.items() if open_]

    def count(self, begin: str) -> int:
        return sum(message.startswith(begin) for message in self.lines())


def run(kills: int, seed: int, folder: Path) -> Killed:
    """The whole series; what it found wrong stands in ``problems``."""
    rng, done, started = random.Random(seed), Killed(), time.monotonic()
    url = f"{folder}/lake/table?durable=false"
    bs.create(url, schema=SCHEMA, sort_by=["row"], properties=PROPERTIES)
    (folder / "work").mkdir()
    (folder / "rounds").touch()
    config = folder / "compactor.toml"
    config.write_text(CONFIG.format(work=folder / "work"))
    others = [start("write", url, number, folder) for number in range(WRITERS)]
    others += [start("read", url, number, folder) for number in range(READERS)]
    try:
        for number in range(kills):
            with compactor(folder, config, number) as (process, log):
                wait_for(lambda log=log: log.count("holds the role") > 0, process, log)
                with (folder / "rounds").open("a") as rounds:
                    rounds.write("!")
                during = kill(process, log, rng)
            done.kills += 1
            done.at_work += bool(during)
            for one in during:
                done.during[one] = done.during.get(one, 0) + 1
    finally:
        (folder / "stop").touch()
        reports = [ended(process) for process in others]
    collect(reports, done)
    at_rest(url, folder, config, done)
    last_pass(url, folder, done)
    done.seconds = time.monotonic() - started
    return done


def start(kind: str, url: str, number: int, folder: Path) -> subprocess.Popen[str]:
    words = [
        sys.executable,
        "-m",
        "tests.end_to_end.killed_world",
        kind,
        url,
        str(number),
        str(folder),
        str(ROWS),
    ]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def ended(process: subprocess.Popen[str]) -> dict[str, object]:
    out, _ = process.communicate(timeout=PATIENCE_S)
    report: dict[str, object] = (
        json.loads(out)
        if process.returncode == 0
        else {"errors": [f"ended with {process.returncode}"]}
    )
    return report


@contextlib.contextmanager
def compactor(
    folder: Path, config: Path, number: int
) -> Iterator[tuple[subprocess.Popen[bytes], Log]]:
    """One life of the compactor."""
    log = Log(folder / f"log-{number:03}")
    command = Path(sys.executable).parent / "blockstore"
    words = [str(command), "compact", f"{folder}/lake?durable=false", "--wait"]
    with log.path.open("wb") as file:
        process = subprocess.Popen([*words, "--config", str(config)], stderr=file)
    try:
        yield process, log
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def kill(process: subprocess.Popen[bytes], log: Log, rng: random.Random) -> list[str]:
    """Kill it at a moment of the dice; answers what was under way by its log."""
    draw = rng.random()
    if draw < 0.92:
        wanted = ("merging ",) if draw < 0.67 else ("removing ",)
        for kinds, seconds in ((wanted, 5.0), (tuple(AT_WORK), 20.0)):
            seen = {kind: log.count(kind) for kind in kinds}
            with contextlib.suppress(TimeoutError):
                wait_for(
                    lambda seen=seen: any(log.count(kind) > count for kind, count in seen.items()),
                    process,
                    log,
                    seconds=seconds,
                )
                break
        time.sleep(rng.choice((0.0, 0.0, 0.0, rng.uniform(0, 0.05))))
    else:
        time.sleep(rng.uniform(0, 2))
    process.kill()
    process.wait(PATIENCE_S)
    return log.under_way()


def wait_for(
    happened: object, process: subprocess.Popen[bytes], log: Log, *, seconds: float = PATIENCE_S
) -> None:
    assert callable(happened)
    until = time.monotonic() + seconds
    while not happened():
        if process.poll() is not None:
            raise AssertionError(
                f"the compactor ended by itself ({process.returncode}): "
                f"{log.path.read_text()[-2000:]}"
            )
        if time.monotonic() > until:
            raise TimeoutError(log.path.read_text()[-2000:])
        time.sleep(0.003)


def collect(reports: list[dict[str, object]], done: Killed) -> None:
    for report in reports:
        done.batches += int(str(report.get("batches", 0)))
        done.polls += int(str(report.get("polls", 0)))
        done.stale += int(str(report.get("stale", 0)))
        for kind in ("errors", "problems"):
            found = report.get(kind, [])
            assert isinstance(found, list)
            done.problems += [f"{kind[:-1]}: {one}" for one in found]


def at_rest(url: str, folder: Path, config: Path, done: Killed) -> None:
    """A last life that is not killed finds everything that was left to it: what aged is published,
    and it stops when told."""
    must = noted(folder, "acknowledged") | noted(folder, "late")
    table = bs.open(url)
    with compactor(folder, config, 999) as (process, log):
        wait_for(lambda: log.count("holds the role") > 0, process, log)

        def published() -> bool:
            table.poll()
            return not compare(seen_by(table), must, noted(folder, "asked"), ROWS)

        try:
            wait_for(published, process, log)
        except TimeoutError:
            done.problems += compare(seen_by(table), must, noted(folder, "asked"), ROWS)[:10]
        process.terminate()
        if process.wait(PATIENCE_S) != 0:
            done.problems.append(
                f"SIGTERM: exit code {process.returncode}: {log.path.read_text()[-500:]}"
            )


def seen_by(table: Table) -> pa.Table:
    return table.snapshot().scan(columns=["writer", "batch", "row"]).to_table()


def last_pass(url: str, folder: Path, done: Killed) -> None:
    """Days later: everything is merged, cleaned and collected, and nothing is left that nobody
    needs.

    A removal may rest on a listing for half of ``delete_delay`` (R8): with three seconds a busy
    machine drops what it has not got to by then, pass after pass. So the delay is put back to what
    people have; the marks are days old by this clock.
    """
    bs.open(url).alter(properties={"delete_delay": "1h"})
    for days in (3, 6, 9, 12):
        world = shifted(days)
        table = Table.open_bucket(open_bucket(url, world), world)
        compact_once(
            table, Settings(tier_blocks=3, memory_bytes=64 << 20, work_dir=folder / "work")
        )
        clean_once(table, objects_per_s=1e6)
    must = noted(folder, "acknowledged") | noted(folder, "late")
    for discovery in Discovery:
        table = Table.open_bucket(open_bucket(url, world), world, discovery=discovery)
        problems = compare(seen_by(table), must, noted(folder, "asked"), ROWS)
        done.problems += [f"at the end, by {discovery}: {one}" for one in problems[:10]]
    live = set(table.log.state.blocks.ulids())
    done.blocks = len(live)
    listing = list_directories(table.bucket)
    done.problems += [
        f"debris: {ulid}: {sorted(one.objects)}"
        for ulid, one in listing.directories.items()
        if ulid not in live
    ]
    clear_abandoned(folder / "work")
    done.problems += [
        f"debris in the work directory: {path.name}" for path in (folder / "work").iterdir()
    ]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        done = run(given.kills, given.seed, Path(folder))
    during = ", ".join(f"{name} {count}" for name, count in sorted(done.during.items()))
    print(
        f"{done.kills} kills in {done.seconds:.0f} s, {done.at_work} at work ({during}); "
        f"{done.batches} batches, "
        f"{done.polls} polls ({done.stale} too slow), {done.blocks} blocks at the end, "
        f"{len(done.problems)} violations"
    )
    for problem in done.problems:
        print(f"  {problem}")
    return 1 if done.problems or done.at_work * 10 < 6 * done.kills else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
