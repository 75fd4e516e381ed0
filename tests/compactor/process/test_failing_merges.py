"""Failing merges: their loop reports it, waits longer and longer, and blames no block for the
machine's faults.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.bucket import Bucket
from blockstore.compactor.merge import Merged, MergeOptions, MergeTask
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.process.keeper import COMPACT
from blockstore.compactor.process.status import LoopStatus, TableHealth
from blockstore.errors import Unavailable
from blockstore.world import World
from tests.compactor.tended import Tended, Tending


@pytest.fixture
def lake(tmp_path: Path) -> Tended:
    return Tended(tmp_path)


class Slow:
    """The local engine, whose merges take so many seconds, and fail while ``fails`` says so."""

    def __init__(self, seconds: float, fails: Callable[[MergeTask], bool] = lambda _: True) -> None:
        self.seconds = seconds
        self.fails = fails
        self.asked = 0

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        self.asked += 1
        world.clock.sleep(self.seconds)
        if self.fails(task):
            raise Unavailable("the store does not answer")
        return LocalEngine().merge(bucket, world, task, options)


def streams(lake: Tended, count: int) -> None:
    """So many streams, each with one merge to do."""
    lake.create("a")
    for number in range(count):
        lake.fill("a", 2, labels={"stream": str(number)})


def compact(process: Tending) -> LoopStatus:
    return next(loop for loop in process.of("a").loops if loop.name == COMPACT)


def turns(process: Tending, count: int) -> list[float]:
    """Run some turns of the merge loop, each when it is due; return the waits between them."""
    waits = []
    for _ in range(count):
        wait = process.turn("a", COMPACT)
        assert wait is not None
        process.world.clock.sleep(wait)
        waits.append(wait)
    return waits


@pytest.mark.parametrize("seconds", [1, 301])
def test_where_every_merge_fails_the_loop_is_never_well_and_waits_longer(
    lake: Tended, seconds: int
) -> None:
    streams(lake, 8)
    engine = Slow(seconds)
    process = lake.process(engine=engine)
    process.look()
    waits = turns(process, 6)
    loop = compact(process)
    assert (loop.failures, loop.last_success_ms) == (6, None)
    assert loop.problem == "the store does not answer"
    limits = [process.config.loops.retry_s * 2**number for number in range(6)]
    assert all(limit / 2 <= wait <= limit for wait, limit in zip(waits, limits, strict=True))
    assert waits[-1] > waits[0]
    assert process.of("a").health is TableHealth.FAILING
    assert any(f"a: {COMPACT} " in reason for reason in process.status().not_ready)
    # Each turn gives up after three in a row: one that fails for long does not hold the other
    # tables up.
    assert engine.asked == 3 * 6


@pytest.mark.parametrize("seconds", [1, 301])
def test_once_the_merges_end_well_again_the_loop_is_well_and_all_is_merged(
    lake: Tended, seconds: int
) -> None:
    streams(lake, 4)
    engine = Slow(seconds)
    process = lake.process(engine=engine)
    process.look()
    turns(process, 2)
    engine.fails = lambda _: False
    # An earlier failure is not reported again.
    turns(process, 6)
    assert len(lake.live("a")) == 4
    assert compact(process).failures == 0
    assert compact(process).failed_runs == 2
    lake.check()


def test_what_failed_in_an_outdated_plan_is_reported_before_the_next_plan(lake: Tended) -> None:
    streams(lake, 3)
    engine = Slow(301)
    engine.fails = lambda _: engine.asked == 1
    process = lake.process(engine=engine)
    process.look()
    assert turns(process, 1) == [0.0]
    assert (engine.asked, compact(process).failures) == (2, 0)
    turns(process, 1)
    assert (engine.asked, compact(process).failures) == (2, 1)
    assert process.of("a").health is TableHealth.FAILING
    turns(process, 2)
    assert process.of("a").totals.jobs == {"failed": 1, "committed": 3}
    assert process.of("a").health is not TableHealth.FAILING
    lake.check()


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowMemoryError("malloc of size 1073741824 failed"),
        OSError(errno.EIO, "Input/output error"),
        OSError(errno.EMFILE, "Too many open files"),
    ],
    ids=["memory", "io", "files"],
)
def test_a_block_is_not_blamed_for_what_the_machine_did(
    lake: Tended, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    streams(lake, 1)
    process = lake.process()
    process.look()
    read, errors = pq.ParquetFile.read, [error]

    def once(self: pq.ParquetFile, *args: object, **options: object) -> pa.Table:
        if errors:
            raise errors.pop()
        return read(self, *args, **options)

    monkeypatch.setattr(pq.ParquetFile, "read", once)
    turns(process, 1)
    assert compact(process).failures == 1
    assert process.of("a").health is TableHealth.FAILING
    assert process.of("a").totals.jobs == {"failed": 1}
    assert not [info.key for info in lake.bucket.list() if "no-compact" in info.key]
    turns(process, 1)
    assert process.of("a").totals.jobs == {"failed": 1, "committed": 1}
    assert len(lake.live("a")) == 1
    lake.check()
