"""A micro-batch as a job, while another run of the stream is ahead of it.

Only Spark's action is replaced here.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import blockstore as bs
from blockstore.errors import Conflict, Invalid
from blockstore.spark.streaming.batch import foreach_batch, stream_job
from blockstore.spark.writing import dataframe
from blockstore.spark.writing.commit import commit
from blockstore.spark.writing.options import WriteMode, WriteOptions
from blockstore.spark.writing.prepare import plan_write
from blockstore.spark.writing.result import Written
from blockstore.spark.writing.task import write_task
from blockstore.world import World

SCHEMA = StructType([StructField("id", LongType())])


def frame(*ids: int) -> Any:
    return SimpleNamespace(schema=SCHEMA, batches=pa.table({"id": list(ids)}).to_batches())


def run(df: Any, options: WriteOptions, **_: Any) -> Written:
    """What a Spark job does, in this process."""
    plan = plan_write(df.schema, options, World.real())
    written = None if plan.done is not None else write_task(plan, iter(df.batches))
    return commit(plan, [] if written is None else [written], World.real())


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(dataframe, "_written", run)
    return f"{tmp_path}/table"


def ids(url: str) -> list[int]:
    found: list[int] = sorted(bs.open(url).snapshot().scan().to_table()["id"].to_pylist())
    return found


def other_commits_first(monkeypatch: pytest.MonkeyPatch, url: str, number: int, *rows: int) -> None:
    """Let another run of the stream commit its batch after the check of our next one."""

    def late(*args: Any, **options: Any) -> Written:
        monkeypatch.setattr(dataframe, "_written", run)
        foreach_batch(url, stream="s")(frame(*rows), number)
        return run(*args, **options)

    monkeypatch.setattr(dataframe, "_written", late)


def test_a_batch_that_runs_again_counts_once(url: str) -> None:
    write = foreach_batch(url, stream="s")
    write(frame(0), 0)
    write(frame(1), 1)
    write(frame(1), 1)
    assert ids(url) == [0, 1]


def test_a_batch_that_a_later_one_overtook_is_refused_and_not_taken_for_done(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = foreach_batch(url, stream="s")
    write(frame(0), 0)
    other_commits_first(monkeypatch, url, 7, 700)
    with pytest.raises(Conflict, match=r"contains batch 7 .*so batch 5 was not written"):
        write(frame(500), 5)
    assert ids(url) == [0, 700]


def test_a_batch_that_another_run_committed_meanwhile_is_done(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = foreach_batch(url, stream="s")
    other_commits_first(monkeypatch, url, 0, 1)
    write(frame(1), 0)
    assert ids(url) == [1]


def test_a_batch_that_is_written_in_another_way_is_refused_after_a_later_one(url: str) -> None:
    def write(job: bs.Job) -> Written:
        options = WriteOptions(url=url, job=job, mode=WriteMode.UPSERT, key=("id",))
        return dataframe.run(frame(job.batch), options, tune=False, cluster=False)

    for number in (0, 1, 2, 2):
        write(stream_job("s", number))
    for number in (0, 1):
        with pytest.raises(Conflict, match=f"contains batch 2 .*so batch {number} was not"):
            write(stream_job("s", number))
    write(bs.Job(app="nightly", batch=7))
    assert write(bs.Job(app="nightly", batch=7)).already
    assert ids(url) == [0, 1, 2, 7]


def of_run(run_id: str, *rows: int) -> Any:
    """A micro-batch as Spark passes it to a function, of one run of the query ``q``."""
    properties = {"sql.streaming.queryId": "q", "spark.jobGroup.id": run_id}
    given = frame(*rows)
    given.sparkSession = SimpleNamespace(_sc=SimpleNamespace(getLocalProperty=properties.get))
    return given


def test_a_batch_that_is_split_over_two_functions_loses_no_rows_in_silence(url: str) -> None:
    east, west = (
        foreach_batch(url, labels={"region": "east"}),
        foreach_batch(url, labels={"region": "west"}),
    )
    east(of_run("1", 1, 2), 0)
    with pytest.raises(Invalid, match="a name of its own"):
        west(of_run("1", 3, 4), 0)
    assert ids(url) == [1, 2]
    named = foreach_batch(url, labels={"region": "west"}, stream="west")
    named(of_run("1", 3, 4), 0)
    east(of_run("1", 5), 1)
    assert ids(url) == [1, 2, 3, 4, 5]


def test_a_batch_that_is_split_over_two_calls_of_a_function_loses_no_rows_in_silence(
    url: str,
) -> None:
    write = foreach_batch(url)
    write(of_run("1", 1, 2), 0)
    with pytest.raises(Invalid, match=r"written batch 0 .* a name of its own"):
        write(of_run("1", 3, 4), 0)
    write(of_run("1", 5), 1)
    write(of_run("2", 5), 1)
    assert ids(url) == [1, 2, 5]


def test_a_batch_that_failed_is_written_by_a_second_call(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any, **options: Any) -> Written:
        raise Conflict("no")

    write = foreach_batch(url)
    with monkeypatch.context() as patch:
        patch.setattr(dataframe, "_written", fails)
        with pytest.raises(Conflict):
            write(of_run("1", 1), 0)
    write(of_run("1", 1), 0)
    assert ids(url) == [1]


def test_a_function_made_for_each_batch_and_a_run_that_begins_again_are_no_second_function(
    url: str,
) -> None:
    for number in range(3):
        foreach_batch(url)(of_run("1", number), number)
    foreach_batch(url)(of_run("2", 2), 2)
    foreach_batch(url)(of_run("2", 3), 3)
    assert ids(url) == [0, 1, 2, 3]
