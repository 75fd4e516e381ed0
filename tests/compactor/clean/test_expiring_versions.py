"""Retention of rows that have an identity: nothing that was superseded or deleted returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.clean.retention import RetentionReport, plan_retention, retain
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import BlockstoreError, Invalid
from blockstore.format.block import BlockKind
from blockstore.format.definition import Definition
from blockstore.format.properties import Properties
from blockstore.index import log as index_log
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.operations.expire import expire
from blockstore.scan.shadows import StreamShadows
from blockstore.table import Table
from blockstore.world import World
from tests.compactor.lake import DAY_S, START_MS
from tests.support.faulty import Call, FaultyBucket, Killed

DAY_MS = 86_400_000
SCHEMA = pa.schema([("id", pa.int64()), ("time", pa.timestamp("ms", tz="UTC")), ("n", pa.int64())])


class Ageing:
    """A table with a key whose rows expire after 30 days."""

    def __init__(self, tmp_path: Path, **properties: str) -> None:
        self.world = World.manual(seed=1, now_ms=START_MS)
        self.bucket = MemoryBucket(self.world.clock)
        self.work_dir = tmp_path
        definition = Definition.create(
            SCHEMA,
            key="id",
            time_column="time",
            properties=Properties.parse({"retention": "30d", **properties}),
        )
        index_log.create(self.bucket, self.world, definition)

    def open(self, bucket: Any = None) -> Table:
        return Table.open_bucket(bucket or self.bucket, self.world)

    def put(self, one: int, days: int, n: int = 0, **more: Any) -> None:
        """A row of the day that began so many days before now."""
        row = {"id": one, "time": self.world.clock.now_ms() - days * DAY_MS, "n": n}
        self.open().upsert(pa.Table.from_pylist([row], schema=SCHEMA), **more)

    def compact(self) -> None:
        compact_once(self.open(), Settings(tier_blocks=2, work_dir=self.work_dir))

    def retain(self, bucket: Any = None) -> RetentionReport:
        return retain(self.open(bucket), claim(self.open().log, self.world, COMPACTOR))

    def seen(self) -> list[tuple[int, int]]:
        rows = self.open().snapshot().scan(columns=["id", "n"]).to_table().to_pylist()
        return sorted((row["id"], row["n"]) for row in rows)

    def kinds(self) -> list[BlockKind]:
        return sorted(block.meta.kind for block in self.open().log.state.blocks)


def moved_back(tmp_path: Path) -> Ageing:
    """Row 1 was young and is old now; its younger version is left in a plain block, with row 2."""
    made = Ageing(tmp_path)
    made.put(1, 5)
    made.put(2, 5)
    made.compact()
    assert made.kinds() == [BlockKind.PLAIN]
    made.put(1, 40, 1)
    made.put(3, 40)
    return made


def test_a_row_that_was_moved_back_in_time_does_not_return(tmp_path: Path) -> None:
    made = moved_back(tmp_path)
    assert made.seen() == [(1, 1), (2, 0), (3, 0)]
    planned = plan_retention(made.open())
    report = made.retain()
    assert set(report.blocks) == set(planned.blocks)
    assert len(report.blocks) == 2
    assert made.seen() == [(2, 0)]
    entry = next(one for one in made.open().log.entries() if one.id == report.version)
    assert (len(entry.add), len(entry.remove), entry.operation) == (1, 2, "expire")
    made.world.clock.sleep(3 * DAY_S)
    made.compact()
    assert made.seen() == [(2, 0)]


def test_without_tombstones_it_would_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = moved_back(tmp_path)
    monkeypatch.setattr(StreamShadows, "uncovered_by", lambda self, ulids: {})
    made.retain()
    assert made.seen() == [(1, 0), (2, 0)]


def test_changes_that_hide_nothing_leave_without_a_tombstone(tmp_path: Path) -> None:
    made = Ageing(tmp_path)
    made.put(1, 40)
    made.put(1, 35, 1)
    made.put(2, 5)
    assert len(made.retain().blocks) == 2
    assert made.kinds() == [BlockKind.CHANGES]
    assert made.seen() == [(2, 0)]


def test_each_stream_has_its_entry(tmp_path: Path) -> None:
    made = Ageing(tmp_path)
    for site in ("x", "y"):
        made.put(1, 5, labels={"site": site})
        made.put(1, 40, 1, labels={"site": site})
        made.put(2, 40, labels={"site": site})
    assert len(made.retain().blocks) == 4
    assert made.seen() == []


def test_a_row_that_is_changed_meanwhile_stays(tmp_path: Path) -> None:
    made = moved_back(tmp_path)
    faulty, waiting = FaultyBucket(made.bucket), [True]

    def overtake(call: Call) -> None:
        if call.method == "put_if_absent" and call.key.startswith("index/0") and waiting:
            waiting.clear()
            made.put(1, 1, 9)

    faulty.before.append(overtake)
    assert len(made.retain(faulty).blocks) == 2
    assert made.seen() == [(1, 9), (2, 0)]


@pytest.mark.parametrize("fault", ["kill_before", "kill_after", "lose_answer"])
def test_every_crash_leaves_a_table_that_the_next_run_finishes(tmp_path: Path, fault: str) -> None:
    for number in range(1, 200):
        made = moved_back(tmp_path)
        limit: Any = {number} if fault == "lose_answer" else number
        faulty = FaultyBucket(made.bucket, **{fault: limit})
        try:
            made.retain(faulty)
        except (Killed, BlockstoreError):
            pass
        assert made.seen() in ([(1, 1), (2, 0), (3, 0)], [(2, 0)])
        made.retain()
        assert made.seen() == [(2, 0)]
        if len(faulty.calls) < number:
            return
    raise AssertionError("a run makes fewer calls")


def test_former_versions_leave_once_they_are_no_longer_kept(tmp_path: Path) -> None:
    made = Ageing(tmp_path, row_history="10d", retention="none")
    made.put(1, 0)
    made.put(1, 0, 1)
    made.compact()
    assert made.kinds() == [BlockKind.HISTORY, BlockKind.PLAIN]
    assert made.open().row_history(1)["n"].to_pylist() == [1, 0]
    made.world.clock.sleep(9 * DAY_S)
    made.put(1, 0, 2)
    read_version = made.open().poll()
    assert made.retain().blocks == ()
    made.world.clock.sleep(2 * DAY_S)
    assert len(made.retain().blocks) == 1
    assert made.open().row_history(1)["n"].to_pylist() == [2, 1]
    state = made.open().log.state
    assert state.touches is not None
    assert state.touches.among(_all(), read_version) is not None, "it has touched no row"


def _all() -> Any:
    import numpy as np

    return np.arange(3, dtype=np.uint64)


def test_a_block_of_changes_does_not_leave_unjudged(tmp_path: Path) -> None:
    made = moved_back(tmp_path)
    table = made.open()
    own = {kind: [] for kind in BlockKind}
    for block in table.log.state.blocks:
        own[block.meta.kind].append(block.ulid)
    with pytest.raises(Invalid, match="which blocks hide from one another"):
        expire(table.log, table.world, own[BlockKind.CHANGES], "manual")
    expire(table.log, table.world, own[BlockKind.PLAIN], "manual")
    assert made.seen() == [(1, 1), (3, 0)]
