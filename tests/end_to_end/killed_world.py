"""The processes around a compactor that is killed: writers that remember what was acknowledged,
readers that check it.

    python -m tests.end_to_end.killed_world write URL NUMBER FOLDER ROWS
    python -m tests.end_to_end.killed_world read  URL NUMBER FOLDER ROWS

Both run until the file ``stop`` lies in FOLDER, and then print one JSON line. A writer notes every
batch in FOLDER before it asks for it, and once more when it was acknowledged; what is noted there
is the model that readers compare with.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

import pyarrow as pa

import blockstore as bs
from blockstore.errors import BlockstoreError, Corrupt, NotFound, Unavailable

SCHEMA = pa.schema(
    [("writer", pa.int64()), ("batch", pa.int64()), ("row", pa.int64()), ("filler", pa.string())]
)
BATCHES = 12
"""Batches that a writer appends a round."""

STALE_S = 2.0
"""A read that took longer than this may have been overtaken by the delays of the table: they are
this short."""

Batch = tuple[int, int]


def rows(writer: int, batch: int, count: int) -> pa.Table:
    """Rows that name themselves, in an order that a merge must make."""
    numbers = list(range(count))
    random.Random(writer * 1_000_003 + batch).shuffle(numbers)
    filler = [f"{number * 2_654_435_761 % 4_294_967_296:08x}" * 4 for number in numbers]
    return pa.table(
        {"writer": [writer] * count, "batch": [batch] * count, "row": numbers, "filler": filler},
        schema=SCHEMA,
    )


def asked(folder: Path, writer: int) -> Path:
    return folder / f"asked-{writer}"


def acknowledged(folder: Path, writer: int) -> Path:
    return folder / f"acknowledged-{writer}"


def noted(folder: Path, kind: str) -> set[Batch]:
    """The batches that all writers have noted;

    ``acknowledged-`` holds those that every reader must see.
    """
    found = set()
    for path in folder.glob(f"{kind}-*"):
        writer = int(path.name.rpartition("-")[2])
        found |= {(writer, int(line)) for line in path.read_text().split("\n")[:-1]}
    return found


def note(path: Path, batch: int) -> None:
    with path.open("a") as file:
        file.write(f"{batch}\n")


def write(url: str, writer: int, folder: Path, count: int) -> dict[str, object]:
    """Append until told to stop: most batches are published, some are left to be discovered, some
    carry a job.

    A few batches a round (the length of the file ``rounds``), so that a slow machine does not pile
    up what it cannot merge.
    """
    table, rng, errors = bs.open(url), random.Random(writer), []
    batch = 0
    while not (folder / "stop").exists():
        if batch >= BATCHES * (folder / "rounds").stat().st_size:
            time.sleep(0.02)
            continue
        batch += 1
        note(asked(folder, writer), batch)
        publish = rng.random() > 0.15
        job = bs.Job(f"writer-{writer}", batch) if publish and rng.random() < 0.3 else None
        try:
            block = table.append(rows(writer, batch, count), job=job, publish=publish)
        except BlockstoreError as error:
            errors.append(f"{type(error).__name__}: {error}")
            continue
        kind = acknowledged if block.published else late
        note(kind(folder, writer), batch)
        time.sleep(rng.uniform(0.02, 0.2))
    return {"batches": batch, "errors": errors}


def late(folder: Path, writer: int) -> Path:
    """Acknowledged batches that become visible by their age: readers may see them at any time."""
    return folder / f"late-{writer}"


def read(url: str, number: int, folder: Path, count: int) -> dict[str, object]:
    """Poll and compare until told to stop."""
    table, problems, polls, stale = bs.open(url), [], 0, 0
    while not (folder / "stop").exists():
        before, started = noted(folder, "acknowledged"), time.monotonic()
        try:
            found = table.snapshot().scan(columns=["writer", "batch", "row"]).to_table()
        except (Corrupt, NotFound, Unavailable) as error:
            # Fresh snapshots of a table whose delays are two seconds: a slow reader loses its
            # blocks, and is told so.
            if time.monotonic() - started < STALE_S:
                problems.append(f"{type(error).__name__}: {error}")
            stale += 1
            table = bs.open(url)
            continue
        polls += 1
        problems += compare(found, before, noted(folder, "asked"), count)
        time.sleep(0.05)
    return {"polls": polls, "stale": stale, "problems": problems[:10]}


def compare(found: pa.Table, must: set[Batch], may: set[Batch], count: int) -> list[str]:
    """What is wrong with rows that were read: a batch that is missing, in part, twice, or that
    nobody asked for."""
    frame = found.group_by(["writer", "batch"]).aggregate(
        [("row", "count"), ("row", "count_distinct")]
    )
    seen = {
        (writer, batch): (rows, distinct)
        for writer, batch, rows, distinct in zip(
            *(
                frame[name].to_pylist()
                for name in ("writer", "batch", "row_count", "row_count_distinct")
            ),
            strict=True,
        )
    }
    return [
        *(f"batch {one} was acknowledged and is missing" for one in sorted(must - seen.keys())),
        *(f"batch {one} was never asked for" for one in sorted(seen.keys() - may)),
        *(
            f"batch {one} has {rows} rows, {distinct} of them different, expected {count}"
            for one, (rows, distinct) in sorted(seen.items())
            if (rows, distinct) != (count, count)
        ),
    ]


def main(arguments: list[str]) -> None:
    kind, url, number, folder, count = arguments
    run = {"write": write, "read": read}[kind]
    print("ready", flush=True)
    print(json.dumps(run(url, int(number), Path(folder), int(count))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
