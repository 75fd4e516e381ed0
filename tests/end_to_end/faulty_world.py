"""The processes around a store with faults: writers, one that overwrites and deletes, a compactor,
readers.

    python -m tests.end_to_end.faulty_world ROLE URL NUMBER FOLDER ROWS

Each runs until the file ``stop`` is in FOLDER, and prints one JSON line. Writers note every batch
before it is sent and what became of it; what is noted is the model with which others compare. An
operation may fail, by an error of ``blockstore.errors`` only; what is not known then is resolved:
an append by its ULID or its job, an overwrite by its job, a delete by another one.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import blockstore as bs
from blockstore.compactor.by_hand import clean_once
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import BlockstoreError, Corrupt, HistoryReplaced, Indeterminate
from blockstore.table import Table
from tests.end_to_end.killed_world import acknowledged, asked, compare, late, note, noted, rows

__all__ = ["CHANGER", "Done", "changes_fit", "sent_changes"]

CHANGER = 900
"""The writer whose rows are overwritten and deleted: there is one batch of it, or none."""
DELETES = 4
"""Every so many changes one deletes."""
PATIENCE_S = 45.0
"""After ``stop`` for what is not known yet; no faults are injected by then."""


@dataclass
class Done:
    """What one process did."""

    operations: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    """By the class of the error."""
    resolved: int = 0
    """Operations whose outcome was not known at first."""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    examples: dict[str, str] = field(default_factory=dict)
    """A message of each class of error."""

    def note_error(self, error: Exception, what: str) -> None:
        """Count an error; one that is not of Blockstore is a violation."""
        name = type(error).__name__
        self.failed[name] += 1
        self.examples.setdefault(name, f"{what}: {error}")
        if not isinstance(error, BlockstoreError):
            self.problems.append(f"{what} raised {name}: {error}")

    def took(self, what: str, begun: float) -> None:
        self.operations[what] += 1
        self.seconds.setdefault(what, []).append(time.monotonic() - begun)


class Stop:
    """Whether the run is over."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "stop"
        self._since: float | None = None

    def __bool__(self) -> bool:
        return self._file.exists()

    @property
    def patience_is_over(self) -> bool:
        if self and self._since is None:
            self._since = time.monotonic()
        return self._since is not None and time.monotonic() > self._since + PATIENCE_S


def refused(folder: Path, writer: int) -> Path:
    """Batches whose append raised that nothing of them is visible: no reader may ever see them."""
    return folder / f"refused-{writer}"


def unknown(folder: Path, writer: int) -> Path:
    """Batches of which it is not known at the end whether they were applied."""
    return folder / f"unknown-{writer}"


def opened(url: str, done: Done, stop: Stop) -> Table:
    """The table, opened as often as the store makes it necessary.

    Its first snapshot may be of the time of the open (protocol 3.5), and is not judged.
    """
    while True:
        try:
            table = bs.open(url)
            table.snapshot()
            return table
        except Exception as error:
            done.note_error(error, "open")
            if stop.patience_is_over:
                raise


def write(table: Table, writer: int, folder: Path, count: int, done: Done) -> None:
    """Append batch after batch, some with a job."""
    stop, dice, batch = Stop(folder), random.Random(writer), 0
    while not stop:
        batch += 1
        note(asked(folder, writer), batch)
        job = bs.Job(f"writer-{writer}", batch) if dice.random() < 0.3 else None
        kind = append(table, writer, batch, count, job, done, stop)
        note(kind(folder, writer), batch)
        time.sleep(dice.uniform(0.05, 0.2))


def append(
    table: Table, writer: int, batch: int, count: int, job: bs.Job | None, done: Done, stop: Stop
) -> Callable[[Path, int], Path]:
    """Append one batch, as often as it takes to know what became of it; returns where to note
    it."""
    data, resume, begun = rows(writer, batch, count), None, time.monotonic()
    is_known = True
    while True:
        try:
            block = table.append(data, job=job, resume=resume)
        except Exception as error:
            done.note_error(error, "append")
            if isinstance(error, Indeterminate):
                is_known, resume = False, error.ulid or resume
                if job is None and resume is None:
                    done.problems.append(f"an append cannot be resumed: {error}")
                    return unknown
            elif isinstance(error, (Corrupt, HistoryReplaced)):
                return unknown  # the rows may become visible by their age
            elif not isinstance(error, BlockstoreError):
                return unknown
            elif job is None and is_known:
                return refused
            if job is not None:
                is_known, resume = False, None
            if stop.patience_is_over:
                done.problems.append(f"batch {(writer, batch)} is never resolved: {error}")
                return unknown
            continue
        done.resolved += not is_known
        done.took("append", begun)
        return acknowledged if block.published else late


def change(table: Table, writer: int, folder: Path, count: int, done: Done) -> None:
    """Overwrite the rows of one writer again and again, or delete them."""
    stop = Stop(folder)
    where, number = f"writer = {writer}", 0
    while not stop:
        number += 1
        note(folder / "changes-sent", number)
        begun, tries = time.monotonic(), 0
        while True:
            tries += 1
            try:
                if number % DELETES:
                    job = bs.Job("changer", number)
                    table.overwrite(rows(writer, number, count), where=where, job=job)
                else:
                    table.delete(where)
            except Exception as error:
                done.note_error(error, "overwrite" if number % DELETES else "delete")
                if not isinstance(error, BlockstoreError) or stop.patience_is_over:
                    done.problems.append(f"change {number} is never resolved: {error}")
                    return
                continue
            break
        done.resolved += tries > 1
        done.took("overwrite" if number % DELETES else "delete", begun)
        note(folder / "changes-done", number)


def sent_changes(folder: Path, kind: str) -> int:
    """The last change that was sent, or that was done."""
    path = folder / f"changes-{kind}"
    return int(path.read_text().split("\n")[-2]) if path.exists() else 0


def changes_fit(found: pa.Table, done: int, sent: int, count: int) -> list[str]:
    """What is wrong with the changer's rows, read between these two changes."""
    batches = Counter(found["batch"].to_pylist())
    allowed = [{} if number % DELETES == 0 else {number: count} for number in range(done, sent + 1)]
    if dict(batches) in allowed:
        return []
    return [f"the changed rows are {dict(batches)}, expected those after change {done} to {sent}"]


def read(table: Table, number: int, folder: Path, count: int, done: Done) -> None:
    """Scan, count and look points up, and compare."""
    stop, dice = Stop(folder), random.Random(number)
    kinds = [scan, counted, point, point, point]
    while not stop:
        kind = dice.choice(kinds)
        begun = time.monotonic()
        try:
            done.problems += kind(table, folder, number, count, dice)
        except Exception as error:
            done.note_error(error, kind.__name__)
            continue
        done.took(kind.__name__, begun)


def scan(table: Table, folder: Path, number: int, count: int, dice: random.Random) -> list[str]:
    """All rows, compared with what was acknowledged before and sent by then."""
    before, changed = noted(folder, "acknowledged"), sent_changes(folder, "done")
    taken = table.snapshot()
    found = taken.scan(columns=["writer", "batch", "row"]).to_table()
    see(folder, number, version=taken.version, rows=found.num_rows)
    return problems_of(found, before, folder, changed, count)


def problems_of(
    found: pa.Table, before: set[tuple[int, int]], folder: Path, changed: int, count: int
) -> list[str]:
    """What is wrong with all rows, read after ``before`` and the change ``changed`` were done."""
    mine = pc.equal(found["writer"], CHANGER)
    appended = found.filter(pc.invert(mine))
    return [
        *compare(appended, before, noted(folder, "asked"), count),
        *changes_fit(found.filter(mine), changed, sent_changes(folder, "sent"), count),
    ]


def counted(table: Table, folder: Path, number: int, count: int, dice: random.Random) -> list[str]:
    """The number of rows, judged by the version."""
    taken = table.snapshot()
    see(folder, number, version=taken.version, rows=taken.count())
    return []


def point(table: Table, folder: Path, number: int, count: int, dice: random.Random) -> list[str]:
    """One row of an acknowledged batch."""
    known = sorted(noted(folder, "acknowledged"))
    if not known:
        return []
    writer, batch = dice.choice(known)
    row = dice.randrange(count)
    where = f"writer = {writer} AND batch = {batch} AND row = {row}"
    found = (
        table.snapshot().scan(where=where).to_table().select(["writer", "batch", "row", "filler"])
    )
    expected = rows(writer, batch, count).to_pylist()
    right = [one for one in expected if one["row"] == row]
    return [] if found.to_pylist() == right else [f"{where}: found {found.to_pylist()}"]


def see(folder: Path, number: int, **seen: object) -> None:
    """Note what was read at a version, for the one that checks it by another way."""
    with (folder / f"seen-{number}").open("a") as file:
        file.write(json.dumps(seen) + "\n")


def compact(table: Table, number: int, folder: Path, count: int, done: Done) -> None:
    """Merge, publish what aged, mark, remove and collect."""
    stop = Stop(folder)
    settings = Settings(
        tier_blocks=3, memory_bytes=64 << 20, concurrency=2, work_dir=folder / f"work-{number}"
    )
    (folder / f"work-{number}").mkdir()
    while not stop:
        try:
            done.operations["merge"] += len(compact_once(table, settings).done)
            done.operations["removed block"] += len(clean_once(table, objects_per_s=1e6).removed)
        except Exception as error:
            done.note_error(error, "the compactor")
        time.sleep(0.2)


def main(arguments: list[str]) -> None:
    role, url, number, folder, count = arguments
    run, done = {"write": write, "change": change, "read": read, "compact": compact}[role], Done()
    table = opened(url, done, Stop(Path(folder)))
    print("ready", flush=True)
    run(table, int(number), Path(folder), int(count), done)
    print(json.dumps(vars(done)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
