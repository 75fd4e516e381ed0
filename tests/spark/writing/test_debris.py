"""What Spark jobs leave behind when they fail: in time each row counts once, and what no reader
needs is cleaned away."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as st

import blockstore as bs
from blockstore.bucket import open_bucket
from blockstore.clock import SystemClock
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.spark.writing.commit import commit
from blockstore.spark.writing.data_source import TasksWriter
from blockstore.spark.writing.options import WriteOptions
from blockstore.spark.writing.plan import WritePlan
from blockstore.spark.writing.prepare import plan_write
from blockstore.spark.writing.task import write_task
from blockstore.world import World

NUMBERS = st.StructType([st.StructField("id", st.LongType())])
JOB = bs.Job("nightly", 1)
DAY_S = 86_400.0


@pytest.fixture
def world() -> World:
    """A clock of its own that starts now: tasks, which have the machine's, write at its
    beginning."""
    return World.manual(seed=5, now_ms=SystemClock().now_ms())


@pytest.fixture
def url(world: World) -> str:
    url = f"memory://debris-{World.real().ids.token()}"
    table = bs.create(url, schema=pa.schema([("id", pa.int64())]), world=world)
    table.append(pa.table({"id": [0]}))
    return url


def plan(url: str, world: World, **options: Any) -> WritePlan:
    return plan_write(NUMBERS, WriteOptions(url=url, **options), world)


def written(mine: WritePlan, *numbers: int) -> Any:
    return write_task(mine, [pa.record_batch({"id": pa.array(numbers, pa.int64())})])


def rows(url: str, world: World) -> list[list[int]]:
    """What readers see, by the index and by a listing."""
    found = [
        bs.open(url, discovery=how, world=world).snapshot().scan().to_table()
        for how in ("index", "list")
    ]
    return [sorted(one["id"].to_pylist()) for one in found]


def days_pass(url: str, world: World, days: int) -> None:
    """A compactor cleans twice a day."""
    for _ in range(2 * days):
        world.clock.sleep(DAY_S / 2)
        table = bs.open(url, world=world)
        Cleaner(table, claim(table.log, world, COMPACTOR), objects_per_s=1e6).run()


def folders(url: str, world: World) -> set[str]:
    keys = (found.key for found in open_bucket(url, world).list())
    return {key.partition("/")[0] for key in keys} - {"index", "gc"}


def unavailable(*args: object, **kwargs: object) -> None:
    raise bs.Unavailable("the store did not answer")


def test_a_job_that_could_not_publish_is_retried_and_counts_once_whatever_the_compactor_finds(
    url: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = plan(url, world, job=JOB)
    with monkeypatch.context() as patch:
        patch.setattr("blockstore.index.log.Log.commit", unavailable)
        with pytest.raises(bs.Unavailable):
            commit(mine, [written(mine, 1, 2)], world)
    assert f"{mine.ulid}/meta.json" in {
        found.key for found in bs.open(url, world=world).bucket.list()
    }
    again = plan(url, world, job=JOB)
    commit(again, [written(again, 1, 2)], world)
    assert rows(url, world) == [[0, 1, 2], [0, 1, 2]]
    days_pass(url, world, 8)
    assert rows(url, world) == [[0, 1, 2], [0, 1, 2]]
    assert mine.ulid not in folders(url, world)


def test_a_write_without_a_job_that_could_not_publish_is_discovered_once(
    url: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = plan(url, world)
    with monkeypatch.context() as patch:
        patch.setattr("blockstore.index.log.Log.commit", unavailable)
        assert not commit(mine, [written(mine, 1, 2)], world).published
    assert rows(url, world)[0] == [0]
    days_pass(url, world, 3)
    assert rows(url, world) == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("overwrite", [False, True], ids=["append", "overwrite"])
def test_what_aborted_jobs_and_losing_attempts_leave_is_cleaned_away(
    url: str, world: World, overwrite: bool
) -> None:
    aborted, good = plan(url, world, overwrite=overwrite), plan(url, world, overwrite=overwrite)
    writer = TasksWriter(aborted)
    message = writer.write(iter([pa.record_batch({"id": pa.array([7], pa.int64())})]))
    writer.abort([message, None])
    loser, winner = written(good, 1, 2), written(good, 1, 2)
    assert loser.files != winner.files
    done = commit(good, [winner], world)
    expected = [1, 2] if overwrite else [0, 1, 2]
    assert rows(url, world) == [expected, expected]
    assert aborted.ulid in folders(url, world)
    days_pass(url, world, 8)
    assert rows(url, world) == [expected, expected]
    assert aborted.ulid not in folders(url, world)
    assert done.ulid in folders(url, world)
