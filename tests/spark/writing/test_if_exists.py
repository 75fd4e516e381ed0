"""``if_exists``: the meaning of Spark's save modes error and ignore, decided at the commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as st

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.spark.writing.commit import commit
from blockstore.spark.writing.options import IfExists, WriteOptions
from blockstore.spark.writing.plan import WritePlan
from blockstore.spark.writing.prepare import plan_write
from blockstore.spark.writing.result import Written
from blockstore.spark.writing.task import write_task
from blockstore.world import World

NUMBERS = st.StructType([st.StructField("id", st.LongType())])


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "numbers")


def plan(url: str, how: IfExists, **options: Any) -> WritePlan:
    return plan_write(NUMBERS, WriteOptions(url=url, if_exists=how, **options), World.real())


def finish(mine: WritePlan, *numbers: int) -> Written:
    written = write_task(mine, [pa.record_batch({"id": pa.array(numbers, pa.int64())})])
    return commit(mine, [] if written is None else [written], World.real())


def found(url: str) -> list[int]:
    rows: list[int] = bs.open(url).snapshot().scan().to_table()["id"].to_pylist()
    return sorted(rows)


def test_by_every_way_the_first_write_is_made_and_the_second_refused_or_left_out(
    spark_session: SparkSession, url: str
) -> None:
    rows = spark_session.range(3)
    rows.write.format("blockstore").mode("append").option("if_exists", "error").save(url)
    with pytest.raises(Exception, match="already contains a write"):
        rows.write.format("blockstore").mode("append").option("if_exists", "error").save(url)
    rows.write.format("blockstore").mode("append").option("if_exists", "ignore").save(url)
    with pytest.raises(bs.Conflict, match="already contains a write"):
        bs_spark.append(rows, url, if_exists="error")
    answer = bs_spark.append(rows, url, if_exists="ignore")
    assert (answer.ignored, answer.ulid, answer.rows) == (True, None, 0)
    assert found(url) == [0, 1, 2]
    with pytest.raises(bs.Invalid, match="if_exists='replace'"):
        bs_spark.append(rows, url, if_exists="replace")


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_the_modes_that_spark_refuses_by_itself_say_so(
    spark_session: SparkSession, url: str, mode: str
) -> None:
    with pytest.raises(Exception, match=r"(?i)append|overwrite"):
        spark_session.range(3).write.format("blockstore").mode(mode).save(url)


@pytest.mark.parametrize("how", [IfExists.ERROR, IfExists.IGNORE])
def test_a_first_attempt_that_failed_after_it_made_the_table_does_not_hide_the_rows(
    url: str, how: IfExists, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*args: object, **kwargs: object) -> None:
        raise bs.Unavailable("the store did not answer")

    with monkeypatch.context() as patch:
        patch.setattr("blockstore.operations.append.finish_for_entry", unavailable)
        with pytest.raises(bs.Unavailable):
            finish(plan(url, how), 1)
    assert found(url) == []
    assert finish(plan(url, how), 1).published
    assert found(url) == [1]


def test_of_two_first_writes_at_once_one_wins_and_the_other_is_never_discovered(url: str) -> None:
    first, second, third = (
        plan(url, IfExists.ERROR),
        plan(url, IfExists.ERROR),
        plan(url, IfExists.IGNORE),
    )
    assert finish(first, 1).published
    with pytest.raises(bs.Conflict, match="already contains a write"):
        finish(second, 2)
    assert finish(third, 3).ignored
    listed = bs.open(url, discovery="list")
    assert [block.meta.ulid for block in listed.snapshot().blocks] == [first.ulid]
    for ulid in (second.ulid, third.ulid):
        assert '"visible_by":"index"' in (Path(url) / ulid / "meta.json").read_text().replace(
            " ", ""
        )


def test_a_write_that_was_deleted_since_is_a_write(url: str) -> None:
    finish(plan(url, IfExists.ERROR), 1)
    bs.open(url).delete("id = 1")
    with pytest.raises(bs.Conflict, match="already contains a write"):
        plan(url, IfExists.ERROR)


def test_a_job_that_was_committed_is_done_and_not_an_error(url: str) -> None:
    job = bs.Job("nightly", 1)
    first = finish(plan(url, IfExists.ERROR, job=job), 1)
    again = finish(plan(url, IfExists.ERROR, job=job), 1)
    assert (again.already, again.ulid) == (True, first.ulid)
    assert found(url) == [1]
