"""Writing with Spark: one job is one block, in one version, with every value unchanged."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.spark.settings import BATCH_BYTES, BATCH_ROWS
from blockstore.world import Threads
from tests.spark.rows import every_type, flights, values

Write = Callable[..., None]


def by_format(df: DataFrame, url: str, **options: Any) -> None:
    df.write.format("blockstore").options(**options).mode("append").save(url)


def by_append(df: DataFrame, url: str, **options: Any) -> None:
    if "app" in options:
        options["job"] = bs.Job(app=options.pop("app"), batch=options.pop("batch"))
    if "sort_by" in options:
        options["sort_by"] = options["sort_by"].split(",")
    if "labels" in options:
        options["labels"] = dict(pair.split("=") for pair in options["labels"].split(","))
    bs_spark.append(df, url, **options)


@pytest.fixture(params=[by_format, by_append], ids=["format", "append"])
def write(request: pytest.FixtureRequest) -> Write:
    return request.param


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "lake" / "flights")


def test_every_value_comes_back_by_every_way(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    rows = every_type(spark_session)
    write(rows, url)
    assert values(spark_session.read.format("blockstore").load(url)) == values(rows)
    assert values(bs_spark.read(spark_session, url, engine="python")) == values(rows)
    without_nan = [name for name in rows.columns if name not in ("f32", "f64")]
    found = bs_spark.read(spark_session, url, engine="native", columns=without_nan)
    assert values(found) == values(rows.select(without_nan))


def test_what_spark_wrote_is_what_python_reads(spark_session: SparkSession, url: str) -> None:
    by_append(every_type(spark_session), url)
    found = (
        bs.open(url)
        .snapshot()
        .scan(columns=["id", "i64", "instant", "local", "day", "money"])
        .to_table()
    )
    row = found.sort_by("id").to_pylist()[1]
    assert row["i64"] == -(2**63)
    assert row["instant"] == dt.datetime(1883, 11, 18, 3, 4, 5, 6, tzinfo=dt.UTC)
    assert row["local"] == dt.datetime(1, 1, 2, 0, 0, 0, 1)
    assert row["day"] == dt.date(1, 1, 2)


def test_the_first_write_creates_the_table_with_its_time_column_sort_key_and_labels(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    rows = flights(spark_session, ("JFK", 3, 5), ("EWR", 2, 7))
    write(rows, url, time_column="at", sort_by="origin,at", labels="cluster=eu1")
    definition = bs.open(url).definition
    assert (definition.time_column, definition.sort_by, definition.labels) == (
        "at",
        ("origin", "at"),
        {"cluster": "eu1"},
    )
    assert definition.schema.field("at").type == pa.timestamp("us", "UTC")


def test_one_job_of_many_tasks_is_one_block_in_one_version(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    rows = spark_session.range(1000).withColumn("part", sf.col("id") % 7).repartition(8)
    write(rows, url, sort_by="id")
    snapshot = bs.open(url).snapshot()
    (block,) = snapshot.blocks
    assert snapshot.version == 2
    assert (block.meta.rows, len(block.meta.chunks), block.meta.producer) == (1000, 8, "spark")
    assert block.meta.sources == (block.meta.ulid,)


def test_rows_are_sorted_within_every_chunk(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    rows = spark_session.range(1000).select((sf.col("id") * 7919 % 1000).alias("n")).repartition(3)
    write(rows, url, sort_by="n")
    for path in Path(url).glob("*/chunks/*.parquet"):
        numbers = pa.parquet.read_table(path)["n"].to_pylist()
        assert numbers == sorted(numbers)


def test_an_append_returns_and_logs_what_it_wrote_and_how_long_it_took(
    spark_session: SparkSession, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="blockstore.spark"):
        answer = bs_spark.append(spark_session.range(100), url)
    assert (answer.version, answer.published, answer.rows, answer.chunks) == (2, True, 100, 2)
    assert list(answer.seconds) == ["plan", "tasks", "commit"]
    assert all(seconds >= 0 for seconds in answer.seconds.values())
    assert (
        f"block {answer.ulid}, version 2, 100 rows in 2 chunks of {answer.bytes:,} bytes; plan"
        in caplog.text
    )
    assert [block.meta.ulid for block in bs.open(url).snapshot().blocks] == [answer.ulid]


def test_rows_are_exchanged_by_ranges_of_the_sort_key_on_request(
    spark_session: SparkSession, url: str
) -> None:
    rows = spark_session.range(4000).select((sf.col("id") * 7919 % 4000).alias("n")).repartition(4)
    answer = bs_spark.append(rows, url, sort_by=["n"], cluster=True, buffer_bytes=2_000)
    (block,) = bs.open(url).snapshot().blocks
    ranges = sorted((file.columns["n"].min, file.columns["n"].max) for file in block.meta.chunks)
    assert (answer.rows, len(ranges) > 3) == (4000, True)
    assert all(high < low for (_, high), (low, _) in pairwise(ranges)), "no two chunks overlap"
    with pytest.raises(bs.Invalid, match="has none"):
        bs_spark.append(rows, f"{url}-unsorted", cluster=True)


def test_a_chunk_ends_at_its_size_and_memory_is_bounded_by_it(
    spark_session: SparkSession, url: str
) -> None:
    answer = bs_spark.append(spark_session.range(0, 20_000, 1, 1), url, chunk_bytes=40_000)
    (block,) = bs.open(url).snapshot().blocks
    assert 4 <= answer.chunks == len(block.meta.chunks) <= 6
    assert max(file.bytes for file in block.meta.chunks) <= 40_000


def test_a_hundred_partition_values_are_one_block_in_one_commit(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    rows = (
        spark_session.range(2_000).select((sf.col("id") % 100).alias("part"), "id").repartition(4)
    )
    write(rows, url, sort_by="part,id")
    table = bs.open(url)
    assert [(entry.operation, len(entry.add)) for entry in table.history()] == [
        ("create", 0),
        ("append", 1),
    ]
    assert table.snapshot().count() == 2_000
    found = bs_spark.read(spark_session, url, where="part = 37")
    assert sorted(row.id for row in found.collect()) == list(range(37, 2_000, 100))


def test_the_settings_of_the_session_are_restored(spark_session: SparkSession, url: str) -> None:
    spark_session.conf.set(BATCH_ROWS, "777")
    before = (spark_session.conf.get(BATCH_BYTES), "777")
    bs_spark.append(spark_session.range(10), url)
    assert (spark_session.conf.get(BATCH_BYTES), spark_session.conf.get(BATCH_ROWS)) == before
    spark_session.conf.unset(BATCH_ROWS)


def test_an_empty_dataframe_makes_a_table_and_no_block_and_is_logged(
    spark_session: SparkSession, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    by_format(spark_session.range(0), url)
    with caplog.at_level(logging.INFO, logger="blockstore.spark"):
        answer = bs_spark.append(spark_session.range(0), url)
    assert (answer.ulid, answer.rows, answer.published) == (None, 0, False)
    assert "no rows" in caplog.text
    snapshot = bs.open(url).snapshot()
    assert (snapshot.version, len(snapshot.blocks)) == (1, 0)


def test_a_job_that_runs_again_writes_nothing(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    write(spark_session.range(10), url, app="nightly", batch=17)
    files = sorted(Path(url).rglob("*.parquet"))
    write(spark_session.range(10), url, app="nightly", batch=17)
    assert bs.open(url).snapshot().count() == 10
    assert sorted(Path(url).rglob("*.parquet")) == files
    write(spark_session.range(10), url, app="nightly", batch=18)
    assert bs.open(url).snapshot().count() == 20


def test_a_batch_below_the_last_is_refused_before_a_task_runs(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    write(spark_session.range(10), url, app="nightly", batch=17)
    before = sorted(Path(url).rglob("*.parquet"))
    with pytest.raises(Exception, match=r"'nightly' has committed batch 17 and never batch 16"):
        write(spark_session.range(10), url, app="nightly", batch=16)
    assert sorted(Path(url).rglob("*.parquet")) == before


def test_a_job_that_runs_again_returns_the_earlier_block(
    spark_session: SparkSession, url: str
) -> None:
    job = bs.Job(app="nightly", batch=1)
    first = bs_spark.append(spark_session.range(10), url, job=job)
    again = bs_spark.append(spark_session.range(10), url, job=job)
    assert (again.ulid, again.version, again.published) == (first.ulid, first.version, True)


def test_two_jobs_side_by_side_are_two_versions(spark_session: SparkSession, url: str) -> None:
    bs_spark.append(spark_session.range(0), url)
    results = Threads(2).map(lambda n: bs_spark.append(spark_session.range(n, n + 5), url), [0, 5])
    assert {answer.version for answer in results} == {2, 3}
    assert values(spark_session.read.format("blockstore").load(url)) == values(
        spark_session.range(10)
    )


class TestBadInput:
    """One sentence, and nothing half-written stays visible."""

    @pytest.fixture
    def table(self, spark_session: SparkSession, url: str) -> bs.Table:
        by_append(flights(spark_session, ("JFK", 1, 5)), url, time_column="at", sort_by="origin")
        return bs.open(url)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                lambda df: df.withColumn("delay", sf.lit("late")),
                "column 'delay' has the type string, expected int32",
            ),
            (lambda df: df.drop("delay"), "lacks column 'delay'"),
            (lambda df: df.withColumn("gate", sf.lit(1)), "'gate'"),
            (lambda df: df.withColumn("_source", sf.lit("x")), "'_source' is reserved"),
            (
                lambda df: df.withColumn("delay", sf.expr("interval 1 day")),
                "column 'delay' has Spark type interval day",
            ),
        ],
        ids=["wrong type", "missing", "extra", "reserved", "no such type"],
    )
    def test_rows_that_do_not_fit_are_refused_before_a_task_runs(
        self,
        spark_session: SparkSession,
        write: Write,
        table: bs.Table,
        change: Callable[[DataFrame], DataFrame],
        message: str,
    ) -> None:
        before = sorted(Path(table.url.removeprefix("file://")).rglob("*"))
        with pytest.raises(Exception, match=message):
            write(change(flights(spark_session, ("EWR", 1, 1))), table.url)
        assert sorted(Path(table.url.removeprefix("file://")).rglob("*")) == before

    def test_a_null_time_fails_the_job_by_name_and_shows_nothing(
        self, spark_session: SparkSession, write: Write, table: bs.Table
    ) -> None:
        with pytest.raises(Exception, match="column 'at' is null in row"):
            write(
                flights(spark_session, ("EWR", 1, 1)).withColumn(
                    "at", sf.lit(None).cast("timestamp")
                ),
                table.url,
            )
        assert bs.open(table.url).snapshot().version == table.snapshot().version

    def test_options_that_contradict_the_table_are_refused(
        self, spark_session: SparkSession, write: Write, table: bs.Table
    ) -> None:
        with pytest.raises(
            Exception, match=r"option sort_by='at', but .* was created with sort_by='origin'"
        ):
            write(flights(spark_session, ("EWR", 1, 1)), table.url, sort_by="at")

    def test_a_first_write_that_fails_leaves_no_table(
        self, spark_session: SparkSession, write: Write, url: str
    ) -> None:
        rows = flights(spark_session, ("EWR", 1, 1)).withColumn(
            "at", sf.lit(None).cast("timestamp")
        )
        with pytest.raises(Exception, match="column 'at' is null"):
            write(rows, url, time_column="at")
        with pytest.raises(bs.NotFound):
            bs.open(url)


def test_names_with_dots_and_backticks_are_names(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    frame = spark_session.createDataFrame([(1, 2, 3)], "`a.b` int, `c``d` int, `e f` int")
    url = f"{tmp_path}/t"
    bs_spark.append(frame, url)
    found = bs.open(url).snapshot().scan().to_table().to_pylist()
    assert found == [{"a.b": 1, "c`d": 2, "e f": 3}]
    assert bs_spark.read(spark_session, url).collect()[0].asDict() == found[0]
