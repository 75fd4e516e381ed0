"""Many processes append to one table: every row exactly once, nobody is refused, nobody waits for
another."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket import open_bucket
from blockstore.names import parse_entry
from blockstore.table import Table
from blockstore.world import World
from tests.support.tally import tally

SCHEMA = pa.schema([("writer", pa.int64()), ("block", pa.int64()), ("row", pa.int64())])


def run_writers(url: str, writers: int, blocks: int, rows: int) -> list[dict[str, Any]]:
    """Start all, let them go at once, and collect their reports."""
    script = str(Path(__file__).with_name("writer_process.py"))
    processes = [
        subprocess.Popen(
            [sys.executable, script, url, str(number), str(blocks), str(rows)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(writers)
    ]  # fmt: skip
    reports = []
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        out, _ = process.communicate(timeout=240)
        assert process.returncode == 0, out
        reports.append(json.loads(out))
    return reports


def check_exactly_once(
    url: str, reports: list[dict[str, Any]], writers: int, blocks: int, rows: int
) -> None:
    assert [report["errors"] for report in reports] == [[]] * writers
    assert [report["unpublished"] for report in reports] == [0] * writers
    table = bs.open(url)
    snapshot = table.snapshot()
    assert len(snapshot.blocks) == writers * blocks
    found = Counter(
        zip(*(column.to_pylist() for column in snapshot.scan().to_table().columns), strict=True)
    )
    expected = {(w, b, r) for w in range(writers) for b in range(blocks) for r in range(rows)}
    assert set(found) == expected
    assert set(found.values()) == {1}
    ids = sorted(
        entry
        for info in open_bucket(url, World.real()).list("index/", recursive=False)
        if (entry := parse_entry(info.key)) is not None
    )
    assert ids == list(range(1, len(ids) + 1)), "entries are contiguous from 1"
    lost = sum(report["lost"] for report in reports)
    tally("lost create-if-absent races", lost)
    assert lost > 0, "no writer ever lost a race: this run proves nothing"


def test_sixteen_processes_append_forty_blocks_each(tmp_path: Path) -> None:
    """Slow (about ten seconds) because sixteen interpreters start; that is the point of it."""
    url = f"{tmp_path}/table?durable=false"
    bs.create(url, schema=SCHEMA)
    reports = run_writers(url, writers=16, blocks=40, rows=5)
    check_exactly_once(url, reports, writers=16, blocks=40, rows=5)


@pytest.mark.s3
def test_four_processes_append_five_blocks_each_on_s3(s3_url: str) -> None:
    url = f"{s3_url}/table"
    bs.create(url, schema=SCHEMA)
    reports = run_writers(url, writers=4, blocks=5, rows=5)
    check_exactly_once(url, reports, writers=4, blocks=5, rows=5)


class Stalling:
    """Stops inside the creation of an index entry, before or after it took effect, until told to go
    on."""

    def __init__(self, bucket: Any, *, after: bool) -> None:
        self._bucket = bucket
        self._after = after
        self.stalled = threading.Event()
        self.go_on = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bucket, name)

    def put_if_absent(self, key: str, data: bytes) -> str:
        if parse_entry(key) is None or self.go_on.is_set():
            return str(self._bucket.put_if_absent(key, data))
        etag = str(self._bucket.put_if_absent(key, data)) if self._after else None
        self.stalled.set()
        assert self.go_on.wait(60)
        return etag if etag is not None else str(self._bucket.put_if_absent(key, data))


@pytest.mark.parametrize("after", [False, True], ids=["before the PUT", "after the PUT"])
def test_a_writer_that_stalls_in_its_commit_holds_nobody_up(tmp_path: Path, after: bool) -> None:
    url, world = str(tmp_path / "table"), World.real()
    bs.create(url, schema=SCHEMA)
    stalling = Stalling(open_bucket(url, world), after=after)
    slow, quick = Table.open_bucket(stalling, world), bs.open(url)  # type: ignore[arg-type]
    answers: list[Any] = []
    one = pa.table({"writer": [1], "block": [0], "row": [0]})
    thread = threading.Thread(target=lambda: answers.append(slow.append(one)))
    thread.start()
    assert stalling.stalled.wait(60)
    for block in range(5):
        assert quick.append(pa.table({"writer": [2], "block": [block], "row": [0]})).published
    stalling.go_on.set()
    thread.join(60)
    assert [answer.published for answer in answers] == [True]
    assert bs.open(url).snapshot().count() == 6
