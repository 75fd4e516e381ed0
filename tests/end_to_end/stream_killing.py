"""A stream that is killed again and again, at every point of a micro-batch: each row once at the
end.

``python -m tests.end_to_end.stream_killing --kills 20 --batches 200 --seed 1`` prints what was
killed where, and ends with 1 if a promise was broken. After each kill the sink must hold the rows
of all batches before the one that was killed, and that one's if its entry was written; in the end
every row of the source once, one block and one version a batch.

The point ``log`` is the end of a batch: the sink has answered, and the process is killed before
Spark's own log of commits. Nothing can halt Spark there, so it halts just after it, and what it
wrote since is taken away again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import blockstore as bs
from blockstore.errors import NotFound
from tests.end_to_end.stream_process import POINTS

__all__ = ["Series", "run"]

ROOT = Path(__file__).parent.parent.parent
ROWS = 3
"""Rows of a batch."""
DEADLINE_S = 900.0


@dataclass
class Series:
    """What a series did and found."""

    kills: list[tuple[str, int]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            self.violations.append(what)


def run(
    folder: Path, *, kills: int, batches: int, seed: int, say: Callable[[str], None] = print
) -> Series:
    """Copy a table of ``batches`` blocks by a stream that is killed ``kills`` times."""
    series = Series()
    chance = random.Random(seed)
    source = bs.create(f"{folder}/source", schema=pa.schema([("id", pa.int64())]))
    for number in range(batches):
        source.append(pa.table({"id": range(number * ROWS, (number + 1) * ROWS)}))
    points = list(POINTS)
    chance.shuffle(points)
    victims = sorted(chance.sample(range(batches), kills))
    for place, batch in enumerate(victims):
        point = points[place % len(points)]
        if point == "log" and batch == batches - 1:
            point = "entry"  # no batch comes after it, which could halt
        _killed(folder, point, batch)
        series.kills.append((point, batch))
        expected = batch + 1 if point in ("entry", "log") else batch
        found = _ids(folder)
        series.check(
            found == list(range(expected * ROWS)),
            f"killed at {point} of batch {batch}: {len(found)} rows, expected those of {expected} "
            "batches",
        )
        say(f"killed at {point} of batch {batch}: {len(found)} rows")
    (folder / "stop.json").unlink(missing_ok=True)
    with _started(folder) as child:
        code = child.wait(DEADLINE_S + 10 * batches)
    series.check(code == 0, f"the last run ended with {code}")
    _check_end(folder, batches, series)
    return series


def _check_end(folder: Path, batches: int, series: Series) -> None:
    found = _ids(folder)
    series.check(
        found == list(range(batches * ROWS)),
        f"{len(found)} rows at the end, expected {batches * ROWS}",
    )
    jobs = [entry.job for entry in bs.open(f"{folder}/sink").history() if entry.job is not None]
    series.check(
        [job.batch for job in jobs] == list(range(batches)) and len({job.app for job in jobs}) == 1,
        f"the sink's versions are of the jobs {jobs}",
    )


def _ids(folder: Path) -> list[int]:
    try:
        table = bs.open(f"{folder}/sink")
    except NotFound:
        return []
    ids: list[int] = sorted(table.snapshot().scan().to_table()["id"].to_pylist())
    return ids


def _killed(folder: Path, point: str, batch: int) -> None:
    """Run the stream until it has reached the point, and kill every process of it."""
    reached = folder / "reached"
    reached.unlink(missing_ok=True)
    (folder / "stop.json").write_text(json.dumps({"point": point, "batch": batch}))
    with _started(folder) as child:
        try:
            _wait(child, reached, f"{point} of batch {batch}")
        finally:
            os.killpg(child.pid, signal.SIGKILL)
            if reached.exists():
                _kill(int(reached.read_text()))
    if point == "log":
        for name in (f"commits/{batch}", f"offsets/{batch + 1}"):
            log = folder / "checkpoint" / name
            log.unlink()
            log.with_name(f".{log.name}.crc").unlink(missing_ok=True)


def _wait(child: subprocess.Popen[bytes], sign: Path, what: str) -> None:
    until = time.monotonic() + DEADLINE_S
    while not sign.exists():
        if child.poll() is not None:
            raise AssertionError(
                f"the stream ended with {child.returncode} before it reached {what}"
            )
        if time.monotonic() > until:
            raise AssertionError(f"the stream did not reach {what} within {DEADLINE_S:.0f} s")
        time.sleep(0.05)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _started(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.end_to_end.stream_process", str(folder)],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        series = run(Path(folder), kills=given.kills, batches=given.batches, seed=given.seed)
    for violation in series.violations:
        print(f"VIOLATION: {violation}")
    print(
        f"{len(series.kills)} kills, {given.batches} batches, {len(series.violations)} violations"
    )
    return 1 if series.violations else 0


if __name__ == "__main__":
    sys.exit(main())
