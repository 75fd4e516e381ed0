"""Faults in a Spark job cost time, never rows: retries, duplicate attempts, a killed driver, a
failed commit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.errors import Unavailable
from blockstore.spark.settings import BATCH_ROWS
from blockstore.spark.writing import commit as committing
from blockstore.spark.writing.data_source import TasksWriter
from blockstore.spark.writing.options import WriteOptions
from blockstore.spark.writing.plan import WritePlan
from blockstore.spark.writing.prepare import plan_write
from blockstore.spark.writing.task import write_task
from blockstore.world import World

ROOT = Path(__file__).parents[3]
NUMBERS = st.StructType([st.StructField("id", st.LongType())])


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "numbers")


def chunks(url: str) -> list[Path]:
    return sorted(Path(url).glob("*/chunks/*.parquet"))


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(numbers, pa.int64())})


def plan(url: str, job: bs.Job | None = None) -> WritePlan:
    return plan_write(NUMBERS, WriteOptions(url=url, job=job), World.real())


def failing_once(df: DataFrame, url: str) -> DataFrame:
    """The same rows; the first attempt at partition 0 fails once a chunk of it is in the bucket.
    The rows must be more than a Python worker holds back until its end, 64 KiB."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task = TaskContext.get()
        if task is not None and task.partitionId() == 0 and task.attemptNumber() == 0:
            deadline = time.monotonic() + 30
            while (
                not any(path.name.startswith("000000-") for path in chunks(url))
                and time.monotonic() < deadline
            ):
                time.sleep(0.01)
            raise RuntimeError("the first attempt fails")

    return df.mapInArrow(rows, df.schema)


@pytest.mark.parametrize("way", ["format", "append"])
def test_a_task_that_fails_and_is_retried_leaves_each_row_once(
    spark_session: SparkSession, url: str, way: str
) -> None:
    numbers = spark_session.range(0, 100_000, 1, 2)
    spark_session.conf.set(BATCH_ROWS, "2000")
    try:
        if way == "format":
            rows = failing_once(numbers, url)
            rows.write.format("blockstore").option("buffer_size", "32KiB").mode("append").save(url)
        else:
            bs_spark.append(failing_once(numbers, url), url, buffer_bytes=32_768, tune=False)
    finally:
        spark_session.conf.unset(BATCH_ROWS)
    table = bs.open(url).snapshot()
    (block,) = table.blocks
    listed = {Path(url) / block.meta.ulid / file.path for file in block.meta.chunks}
    assert sorted(table.scan().to_table()["id"].to_pylist()) == list(range(100_000))
    assert listed < set(chunks(url)), "the losing attempt left chunks, and they are not listed"


def test_of_two_attempts_at_one_partition_only_the_committed_one_is_listed(url: str) -> None:
    mine = plan(url)
    winner, loser = write_task(mine, [batch(1, 2)]), write_task(mine, [batch(1, 2)])
    other = write_task(mine, [batch(3)])
    assert winner is not None
    assert loser is not None
    assert other is not None
    answer = committing.commit(mine, [winner, other], World.real())
    assert (answer.rows, len(chunks(url))) == (3, 3)
    assert sorted(bs.open(url).snapshot().scan().to_table()["id"].to_pylist()) == [1, 2, 3]


def test_an_empty_task_among_others_writes_no_chunk(url: str) -> None:
    mine = plan(url)
    assert write_task(mine, []) is None
    assert write_task(mine, [batch()]) is None
    assert chunks(url) == []


def test_a_reader_that_polls_through_a_job_sees_all_of_it_or_none(
    spark_session: SparkSession, url: str
) -> None:
    bs_spark.append(spark_session.range(10), url)
    seen: list[int] = []
    ended = threading.Event()

    def poll() -> None:
        reader = bs.open(url)
        while not ended.is_set():
            reader.poll()
            seen.append(reader.snapshot().scan().to_table().num_rows)
            ended.wait(0.005)
        reader.poll()
        seen.append(reader.snapshot().count())

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        bs_spark.append(spark_session.range(0, 100_000, 1, 8), url, buffer_bytes=50_000)
        spark_session.range(0, 50_000, 1, 4).write.format("blockstore").mode("append").save(url)
    finally:
        ended.set()
        thread.join()
    assert set(seen) == {10, 100_010, 150_010}
    assert seen == sorted(seen)
    assert seen.count(10) > 3, "the reader polled while the job ran"


CHILD = """
import sys
from blockstore import spark as bs_spark
from blockstore.operations import append as steps
from tests.support.spark import start_session

def stop(*args, **kwargs):
    print("stopped", flush=True)
    sys.stdin.read()

steps.{step} = stop
bs_spark.append(start_session().range(1000), sys.argv[1])
"""


@pytest.mark.spark
@pytest.mark.parametrize("step", ["finish_for_entry", "ByEntry.publish"])
def test_a_driver_that_is_killed_leaves_the_table_as_it_was(url: str, step: str) -> None:
    """Slow because it starts a Spark of its own: only a real process can be killed at a named
    point."""
    before = bs.create(url, schema=pa.schema([("id", pa.int64())])).append(batch(1, 2))
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CHILD.format(step=step), url],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert "stopped\n" in iter(child.stdout.readline, "")
        child.kill()
    snapshot = bs.open(url).snapshot()
    assert (snapshot.version, snapshot.count()) == (before.version, 2)
    assert len(chunks(url)) > 1, "the job had written its chunks"


def test_a_commit_that_cannot_publish_keeps_the_block_for_discovery(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bs.create(url, schema=pa.schema([("id", pa.int64())]))

    def unavailable(*args: object, **kwargs: object) -> None:
        raise Unavailable("the store did not answer")

    mine = plan(url)
    written = write_task(mine, [batch(1)])
    assert written is not None
    monkeypatch.setattr("blockstore.index.log.Log.commit", unavailable)
    answer = committing.commit(mine, [written], World.real())
    assert (answer.ulid, answer.published) == (mine.ulid, False)


def test_a_job_that_cannot_publish_fails_and_its_retry_counts_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bs.create(url, schema=pa.schema([("id", pa.int64())]))
    job = bs.Job(app="nightly", batch=1)

    def unavailable(*args: object, **kwargs: object) -> None:
        raise Unavailable("the store did not answer")

    mine = plan(url, job)
    written = write_task(mine, [batch(1)])
    assert written is not None
    with monkeypatch.context() as patch:
        patch.setattr("blockstore.index.log.Log.commit", unavailable)
        with pytest.raises(Unavailable):
            committing.commit(mine, [written], World.real())
    again = plan(url, job)
    written = write_task(again, [batch(1)])
    assert written is not None
    assert committing.commit(again, [written], World.real()).published
    assert bs.open(url).snapshot().count() == 1


def test_abort_deletes_nothing(url: str) -> None:
    """Spark also calls it with every result when commit failed after meta.json was written."""
    writer = TasksWriter(plan(url))
    message = writer.write(iter([batch(1)]))
    writer.commit([message])
    before = sorted(Path(url).rglob("*"))
    writer.abort([message, None])
    assert sorted(Path(url).rglob("*")) == before
    assert bs.open(url).snapshot().count() == 1


def test_a_table_created_by_another_with_the_same_schema_takes_the_block(url: str) -> None:
    mine, theirs = plan(url), plan(url)
    assert mine.creates
    assert theirs.creates
    for each, number in ((mine, 1), (theirs, 2)):
        written = write_task(each, [batch(number)])
        assert written is not None
        committing.commit(each, [written], World.real())
    assert sorted(bs.open(url).snapshot().scan().to_table()["id"].to_pylist()) == [1, 2]


def test_a_table_created_by_another_with_another_schema_refuses_the_block(url: str) -> None:
    mine = plan(url)
    written = write_task(mine, [batch(1)])
    assert written is not None
    bs.create(url, schema=pa.schema([("id", pa.int64()), ("name", pa.string())]))
    with pytest.raises(bs.Conflict, match="run the job again"):
        committing.commit(mine, [written], World.real())
    assert bs.open(url).snapshot().count() == 0


def test_two_sessions_with_the_same_task_numbers_never_write_the_same_chunk(url: str) -> None:
    mine = plan(url)
    assert write_task(mine, [batch(1)]) != write_task(mine, [batch(1)])
    assert len(chunks(url)) == 2


def test_a_job_committed_in_the_meantime_is_not_counted_twice(url: str) -> None:
    job = bs.Job(app="nightly", batch=1)
    bs.create(url, schema=pa.schema([("id", pa.int64())]))
    first, second = plan(url, job), plan(url, job)
    results = []
    for each in (first, second):
        written = write_task(each, [batch(7)])
        assert written is not None
        results.append(committing.commit(each, [written], World.real()))
    assert results[0].ulid == results[1].ulid
    assert bs.open(url).snapshot().scan().to_table()["id"].to_pylist() == [7]
