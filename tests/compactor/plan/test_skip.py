"""Skipped streams: nothing of them is removed, and nothing else waits for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from blockstore.bucket.prefixed import Prefixed
from blockstore.clock import ManualClock
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.compactor.clean.report import CleaningReport
from blockstore.compactor.plan.skip import LEFT_ALONE
from blockstore.compactor.process.keeper import CLEAN, INDEX, RETENTION
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.format.marks import DeletionMark, MarkReason
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.index.gc import collect
from blockstore.lifecycle.mark import put_mark
from blockstore.names import DELETION_MARK
from tests.compactor.lake import PER_S, Lake, rows
from tests.compactor.tended import Tended, Tending

SKIP = (("cluster", "us"),)
DAY_S = 86_400.0


class Split(Lake):
    """A table of two streams, eu and us, each of three blocks that were merged into one."""

    def fill(self) -> dict[str, set[str]]:
        made = {
            cluster: {self.ship(f"{cluster}{number}", cluster) for number in range(3)}
            for cluster in ("eu", "us")
        }
        self.sleep(0.1)
        self.compact()
        self.sleep(0.1)
        return made

    def ship(self, writer: str, cluster: str, *, publish: bool = True) -> str:
        block = self.open().append(rows(writer), labels={"cluster": cluster}, publish=publish)
        assert block.ulid is not None
        self.expects(writer)
        return block.ulid

    def tend(self, skip: tuple[tuple[str, str], ...] = SKIP) -> CleaningReport:
        """One pass of a process that skips these."""
        table = self.open()
        if not self.indexed:
            return Cleaner(table, None, skip=skip, objects_per_s=PER_S).run()
        held = claim(table.log, table.world, COMPACTOR)
        collect(table.log, table.world, held=held)
        return Cleaner(table, held, skip=skip, objects_per_s=PER_S).run()

    def tend_for(self, days: float, skip: tuple[tuple[str, str], ...] = SKIP) -> set[str]:
        """The blocks that went meanwhile; whatever is there is read as it should be after each
        pass."""
        gone: set[str] = set()
        for _ in range(int(days * 2)):
            gone |= {one.ulid for one in self.tend(skip).removed}
            self.check()
            self.sleep(0.5)
        return gone


@pytest.fixture(params=[True, False], ids=["indexed", "listed"])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Split:
    return Split(tmp_path, indexed=request.param)


def test_of_a_skipped_stream_nothing_is_marked_or_removed_and_the_others_go_on(lake: Split) -> None:
    made = lake.fill()
    assert lake.tend_for(8) == made["eu"]
    assert lake.marked() == set()
    assert made["us"] < lake.directories().keys()
    assert lake.tend_for(8, skip=()) == made["us"]


def test_a_block_that_was_marked_before_its_stream_was_skipped_waits(lake: Split) -> None:
    made = lake.fill()
    while not lake.marked():
        lake.tend(())
        lake.sleep(0.5)
    lake.sleep(3)
    assert lake.marked() == made["eu"] | made["us"]
    cleaned = lake.tend()
    assert {one.ulid for one in cleaned.removed} == made["eu"]
    assert cleaned.waiting == dict.fromkeys(sorted(made["us"]), LEFT_ALONE)
    lake.check()
    assert lake.tend_for(1, skip=()) == made["us"]


def test_what_hides_no_row_continues_in_a_skipped_stream(tmp_path: Path) -> None:
    """Young blocks are published, an aborted upload goes, and the watermarks rise past what is left
    alone."""
    lake = Split(tmp_path)
    made = lake.fill()
    late = lake.ship("late", "us", publish=False)
    aborted = lake.aborted()
    left = lake.unpublished("job")
    expired = lake.ship("expired", "de")
    lake.open().delete("writer = 'expired'")
    lake.expects("expired", 0)
    lake.sleep(0.1)
    assert lake.tend().discovered == (late,)
    lake.check()
    gone = lake.tend_for(40)
    state = lake.open().log.state
    assert gone == {*made["eu"], aborted, left.ulid, expired}
    assert state.horizon is not None
    assert state.floor is not None
    assert made["us"] < lake.directories().keys()
    assert all(one < state.floor for one in made["us"])


def test_a_partial_mark_is_withdrawn_in_a_skipped_stream_so_that_its_rows_are_seen(
    tmp_path: Path,
) -> None:
    lake = Split(tmp_path)
    late = lake.ship("late", "us", publish=False)
    mark = DeletionMark(
        ulid=late, deletion_time_s=lake.world.clock.now_ms() // 1000, reason=MarkReason.PARTIAL
    )
    put_mark(lake.bucket, lake.world, mark)
    for _ in range(4):
        lake.sleep(0.5)
        lake.tend()
    assert lake.live() == [late]
    lake.check()


def process_of(lake: Tended, *skip: str) -> Tending:
    process = lake.process(
        settings=Settings(
            tier_blocks=2, work_dir=lake.work_dir, memory_bytes=64 << 20, concurrency=1
        ),
        tables={"a": {"skip": tuple(("cluster", label) for label in skip)}},
    )
    process.look()
    return process


def test_the_process_hands_the_labels_of_each_table_to_cleaning_and_retention(
    tmp_path: Path,
) -> None:
    lake = Tended(tmp_path)
    clock = lake.world.clock
    assert isinstance(clock, ManualClock)
    made: dict[tuple[str, str], list[str]] = {}
    for name in ("a", "b"):
        lake.create(name, retention="30d")
        for cluster in ("eu", "us"):
            made[name, cluster] = lake.fill(name, 2, labels={"cluster": cluster})
        compact_once(lake.table(name), Settings(tier_blocks=2, work_dir=tmp_path))
    merged = {name: lake.live(name) for name in ("a", "b")}
    process = process_of(lake, "us")
    for _ in range(20):
        clock.sleep(DAY_S / 2)
        for name in ("a", "b"):
            process.turn(name, INDEX)
            process.turn(name, CLEAN)
    there = {name: directories(lake, name) for name in ("a", "b")}
    assert there["a"] == set(made["a", "us"]) | set(merged["a"])
    assert there["b"] == set(merged["b"])
    clock.sleep(40 * DAY_S)
    for name in ("a", "b"):
        process.turn(name, RETENTION)
    [kept] = lake.live("a")
    assert lake.table("a").log.state.blocks.get_all([kept])[kept].meta.labels == {"cluster": "us"}
    assert lake.live("b") == []


def directories(lake: Tended, name: str) -> set[str]:
    keys = [info.key for info in Prefixed(lake.bucket, name).list()]
    assert not any(key.endswith(DELETION_MARK) for key in keys)
    return {key.partition("/")[0] for key in keys if key.endswith("/meta.json")}
