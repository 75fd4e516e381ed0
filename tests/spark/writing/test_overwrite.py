"""Overwriting with Spark: one transaction, one version, exactly once; changes of others are judged
at its end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.spark.types import arrow_schema
from blockstore.spark.writing.commit import commit
from blockstore.spark.writing.options import WriteOptions
from blockstore.spark.writing.plan import WritePlan
from blockstore.spark.writing.prepare import plan_write
from blockstore.spark.writing.result import Written
from blockstore.spark.writing.task import write_task
from blockstore.world import World
from tests.spark.rows import flights
from tests.support.raw_text import raw_text

Write = Callable[..., None]


def by_format(df: Any, url: str, **options: Any) -> None:
    df.write.format("blockstore").options(**options).mode("overwrite").save(url)


def by_function(df: Any, url: str, **options: Any) -> None:
    if "app" in options:
        options["job"] = bs.Job(app=options.pop("app"), batch=options.pop("batch"))
    bs_spark.overwrite(df, url, **options)


@pytest.fixture(params=[by_format, by_function], ids=["format", "function"])
def write(request: pytest.FixtureRequest) -> Write:
    return request.param


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "lake" / "flights")


def delays(url: str, **at: Any) -> list[int]:
    found: list[int] = (
        bs.open(url).snapshot(**at).scan(columns=["delay"]).to_table()["delay"].to_pylist()
    )
    return sorted(found)


def test_rows_of_a_condition_are_replaced_in_one_version_and_once(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    for day in (1, 2):
        bs_spark.append(
            flights(spark_session, ("EWR", 1, day), ("JFK", 2, 10 * day), day=day),
            url,
            time_column="at",
            sort_by="origin",
        )
    new = flights(spark_session, ("EWR", 5, 77), ("EWR", 6, 78), day=9).repartition(2)
    for _ in range(2):
        write(new, url, where="origin = 'EWR'", app="fix", batch=1)
        assert delays(url) == [10, 20, 77, 78]
        assert bs.open(url).poll() == 4
    newest = list(bs.open(url).history())[-1]
    assert (newest.operation, newest.parameters["where"]) == ("overwrite", "origin = 'EWR'")
    assert delays(url, version=3) == [1, 2, 10, 20]
    before = bs.open(url).poll()
    with pytest.raises(Exception, match="origin = 'LGA'"):
        write(flights(spark_session, ("LGA", 1, 1)), url, where="origin = 'EWR'")
    with pytest.raises(Exception, match="gate"):
        write(new, url, where="gate = 1")
    assert bs.open(url).poll() == before


def test_a_complete_table_is_replaced_and_a_missing_one_is_created(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    write(flights(spark_session, ("EWR", 1, 1), ("JFK", 2, 2)), url, time_column="at")
    assert delays(url) == [1, 2]
    write(flights(spark_session, ("EWR", 1, 5)), url)
    assert delays(url) == [5]
    assert delays(url, version=2) == [1, 2]
    (block,) = bs.open(url).snapshot().blocks
    assert block.meta.producer == "spark"
    assert bs.open(url).definition.time_column == "at"


def test_the_result_names_the_removed_and_the_new_blocks(
    spark_session: SparkSession, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = bs_spark.append(flights(spark_session, ("EWR", 1, 1), ("JFK", 2, 2)).coalesce(1), url)
    second = bs_spark.append(flights(spark_session, ("EWR", 1, 3)), url)
    with caplog.at_level(logging.INFO, logger="blockstore.spark"):
        done = bs_spark.overwrite(
            flights(spark_session, ("EWR", 4, 9)).coalesce(1),
            url,
            where="origin = 'EWR'",
            message="mended",
        )
    assert (done.operation, done.version, done.rows, done.rows_removed, done.chunks) == (
        "overwrite",
        4,
        1,
        2,
        1,
    )
    assert done.removed == (second.ulid,)
    assert list(done.rewritten) == [first.ulid]
    assert list(done.seconds) == ["plan", "tasks", "commit"]
    assert "replacing 2 rows (1 blocks removed, 1 rewritten)" in caplog.text
    assert list(bs.open(url).history())[-1].message == "mended"
    again = bs_spark.append(
        spark_session.range(0).select(
            sf.lit("x").alias("origin"),
            sf.lit(None).cast("timestamp").alias("at"),
            sf.lit(1).alias("delay"),
        ),
        url,
    )
    assert again.ulid is None


# The tests below need no Spark: a plan, its tasks and its commit are plain functions.

SCHEMA = pa.schema([("key", pa.string()), ("delay", pa.int64())])


def plan(url: str, **options: Any) -> WritePlan:
    schema = st.StructType(
        [st.StructField("key", st.StringType()), st.StructField("delay", st.LongType())]
    )
    assert arrow_schema(schema).equals(SCHEMA)
    options.setdefault("overwrite", True)
    return plan_write(schema, WriteOptions(url=url, **options), World.real())


def batch(*rows: tuple[str, int]) -> pa.RecordBatch:
    return pa.record_batch([[key for key, _ in rows], [delay for _, delay in rows]], schema=SCHEMA)


def finish(mine: WritePlan, *rows: tuple[str, int]) -> Written:
    written = write_task(mine, [batch(*rows)] if rows else [])
    return commit(mine, [] if written is None else [written], World.real())


@pytest.fixture
def table(url: str) -> bs.Table:
    made = bs.create(url, schema=SCHEMA, sort_by=["key"])
    made.append(pa.Table.from_batches([batch(("a", 1), ("b", 2))]))
    return made


@pytest.mark.parametrize(
    "options",
    [{"overwrite": False}, {"overwrite": True}, {"overwrite": True, "where": "delay = 1"}],
    ids=["append", "overwrite", "overwrite of a condition"],
)
def test_a_task_refuses_text_that_is_not_utf8(
    url: str, table: bs.Table, options: dict[str, Any]
) -> None:
    """Spark's own strings may hold any bytes: a cast from binary makes such."""
    with pytest.raises(bs.Invalid, match=r"column 'key' holds b'caf\\xe9' in row 0 .*UTF-8"):
        write_task(
            plan(url, **options),
            [pa.record_batch([raw_text([b"caf\xe9"]), pa.array([1])], schema=SCHEMA)],
        )


def test_rows_appended_while_the_job_runs_stay(url: str, table: bs.Table) -> None:
    mine = plan(url)
    table.append(pa.Table.from_batches([batch(("a", 3))]))
    finish(mine, ("c", 9))
    assert delays(url) == [3, 9]


def test_serializable_refuses_what_was_appended_while_the_job_ran(
    url: str, table: bs.Table
) -> None:
    mine = plan(url, isolation="serializable")
    table.append(pa.Table.from_batches([batch(("a", 3))]))
    with pytest.raises(bs.Conflict):
        finish(mine, ("c", 9))
    assert delays(url) == [1, 2, 3]


def test_two_overwrites_at_once_of_the_same_rows_are_one_and_a_conflict(
    url: str, table: bs.Table
) -> None:
    first, second = plan(url), plan(url)
    finish(first, ("c", 9))
    with pytest.raises(bs.Conflict, match="brought block"):
        finish(second, ("d", 8))
    assert delays(url) == [9]


def test_two_overwrites_at_once_of_different_rows_both_hold(url: str, table: bs.Table) -> None:
    first, second = plan(url, where="key = 'a'"), plan(url, where="key = 'b'")
    finish(first, ("a", 9))
    finish(second, ("b", 8))
    assert delays(url) == [8, 9]


def test_no_rows_for_a_condition_are_a_delete(url: str, table: bs.Table) -> None:
    done = finish(plan(url, where="key = 'a'"))
    assert (done.ulid, done.version, done.rows_removed) == (None, 3, 1)
    assert delays(url) == [2]


def test_a_table_created_again_while_the_job_ran_keeps_its_rows(url: str, table: bs.Table) -> None:
    mine = plan(url)
    written = write_task(mine, [batch(("c", 9))])
    assert written is not None
    for path in sorted(Path(url).rglob("*"), reverse=True):
        if mine.ulid not in str(path):
            path.unlink() if path.is_file() else path.rmdir()
    other = bs.create(url, schema=SCHEMA, sort_by=["key"])
    other.append(pa.Table.from_batches([batch(("n", 7))]))
    with pytest.raises(bs.Conflict, match="created again"):
        commit(mine, [written], World.real())
    assert delays(url) == [7]


def test_a_table_that_another_made_while_the_job_ran_keeps_its_rows(url: str) -> None:
    mine = plan(url)
    assert mine.creates
    other = bs.create(url, schema=SCHEMA)
    other.append(pa.Table.from_batches([batch(("n", 7))]))
    with pytest.raises(bs.Conflict, match="did not exist when this overwrite began"):
        finish(mine, ("c", 9))
    assert delays(url) == [7]


def test_a_first_attempt_that_only_made_the_table_is_followed_by_one_that_fills_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*args: object, **kwargs: object) -> None:
        raise bs.Unavailable("the store did not answer")

    with monkeypatch.context() as patch:
        patch.setattr("blockstore.operations.replacement.Replacing.run", unavailable)
        with pytest.raises(bs.Unavailable):
            finish(plan(url), ("c", 9))
    assert bs.open(url).snapshot().count() == 0
    finish(plan(url), ("c", 9))
    assert delays(url) == [9]


def test_of_two_runs_of_one_job_that_both_found_no_table_the_second_returns_the_first(
    url: str,
) -> None:
    job = bs.Job(app="nightly", batch=1)
    first, second = plan(url, job=job), plan(url, job=job)
    done = finish(first, ("c", 9))
    again = finish(second, ("c", 9))
    assert (again.already, again.ulid, again.version) == (True, done.ulid, done.version)
    assert delays(url) == [9]


def test_an_overwrite_that_removed_only_an_unpublished_write_logs_it(
    url: str, table: bs.Table, caplog: pytest.LogCaptureFixture
) -> None:
    table.delete("key = 'a' or key = 'b'")
    unpublished = table.append(pa.Table.from_batches([batch(("u", 5))]), publish=False)
    with caplog.at_level(logging.INFO, logger="blockstore.spark"):
        done = finish(plan(url)).log()
    assert (done.ulid, done.removed, done.accounted) == (None, (), (unpublished.ulid,))
    assert "1 blocks removed" in caplog.text
    assert f"version {done.version}" in caplog.text


def test_a_condition_is_judged_also_where_there_is_no_table_yet(url: str) -> None:
    mine = plan(url, where="key = 'a'")
    with pytest.raises(bs.Invalid, match="key = 'b'"):
        write_task(mine, [batch(("b", 9))])
    finish(mine, ("a", 9))
    assert delays(url) == [9]


def test_a_backfill_writes_its_batches_in_any_order_and_each_once(
    url: str, table: bs.Table
) -> None:
    for number in (3, 1, 2, 1):
        mine = plan(url, where=f"delay = {number}", job=bs.Job("backfill", number), any_order=True)
        finish(mine, ("k", number))
    assert delays(url) == [1, 2, 3]
    with pytest.raises(bs.Invalid, match="never batch 0"):
        plan(url, where="delay = 0", job=bs.Job("backfill", 0))


def test_a_job_that_only_deleted_is_known_again_by_its_version(url: str, table: bs.Table) -> None:
    job = bs.Job("purge", 1)
    done = finish(plan(url, where="key = 'q'", job=job))
    again = finish(plan(url, where="key = 'q'", job=job))
    assert (done.version, again.version, again.already, again.ulid) == (3, 3, True, None)


def test_a_table_without_an_index_is_refused(url: str) -> None:
    bs.create(url, schema=SCHEMA, index=False).append(pa.Table.from_batches([batch(("a", 1))]))
    with pytest.raises(bs.Invalid, match="has no index"):
        plan(url)


def test_an_append_has_no_condition_and_an_overwrite_no_if_exists(url: str) -> None:
    with pytest.raises(bs.Invalid, match="options of an overwrite"):
        plan(url, overwrite=False, where="key = 'a'")
    with pytest.raises(bs.Invalid, match="exclude each other"):
        plan(url, if_exists="error")


def test_rows_computed_from_a_version_conflict_with_what_came_since(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    bs_spark.append(flights(spark_session, ("EWR", 1, 1)), url)
    read = bs.open(url).poll()
    fixed = flights(spark_session, ("EWR", 1, 100))
    bs_spark.append(flights(spark_session, ("JFK", 2, 2)), url)
    with pytest.raises(Exception, match=r"appended block .* after version 2, which it has read"):
        write(fixed, url, read_version=read, isolation="serializable")
    assert delays(url) == [1, 2]
    write(fixed, url, read_version=read)
    assert delays(url) == [2, 100]
    with pytest.raises(
        Exception, match=r"version 4 \(overwrite\) .* after version 3, which it has read"
    ):
        write(fixed, url, read_version=3)
    assert delays(url) == [2, 100]


def test_a_version_of_a_table_that_is_not_there_is_not_found(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    with pytest.raises(Exception, match="read_version is 2, but there is no table"):
        write(flights(spark_session, ("EWR", 1, 1)), url, read_version=2)
    with pytest.raises(
        bs.Invalid, match="where, isolation and read_version are options of an overwrite"
    ):
        WriteOptions(url=url, read_version=2)


def test_a_session_that_overwrites_partitions_dynamically_does_not_lose_the_others(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    bs_spark.append(flights(spark_session, ("EWR", 1, 1), ("JFK", 2, 2)), url)
    spark_session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        with pytest.raises(Exception, match="this overwrite would replace all rows"):
            write(flights(spark_session, ("EWR", 1, 9)), url)
        assert delays(url) == [1, 2]
        write(flights(spark_session, ("EWR", 1, 9)), url, where="origin = 'EWR'")
        assert delays(url) == [2, 9]
        write(flights(spark_session, ("EWR", 1, 7)), url, where="true")
        assert delays(url) == [7]
    finally:
        spark_session.conf.unset("spark.sql.sources.partitionOverwriteMode")
