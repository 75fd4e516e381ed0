"""Upserts with Spark: one job is one version, in which each row is the current one of its key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.spark.writing import commit as committing
from blockstore.spark.writing.options import WriteMode, WriteOptions
from blockstore.spark.writing.prepare import plan_write
from blockstore.spark.writing.task import write_task
from blockstore.world import Threads, World
from tests.spark.rows import values
from tests.support.versions import Oracle

Write = Callable[..., None]
ROWS = "id long, name string, n long"
BY_KEY = pa.schema([("id", pa.int64()), ("name", pa.string()), ("n", pa.int64())])


def by_format(df: DataFrame, url: str, **options: Any) -> None:
    """A source cannot exchange rows, so its caller does."""
    df.repartition(2, "id").write.format("blockstore").option("write_mode", "upsert").options(
        **options
    ).mode("append").save(url)


def by_upsert(df: DataFrame, url: str, **options: Any) -> None:
    if "app" in options:
        options["job"] = bs.Job(app=options.pop("app"), batch=options.pop("batch"))
    if "labels" in options:
        options["labels"] = dict(pair.split("=") for pair in options["labels"].split(","))
    bs_spark.upsert(df, url, **options)


@pytest.fixture(params=[by_format, by_upsert], ids=["format", "upsert"])
def write(request: pytest.FixtureRequest) -> Write:
    return request.param


@pytest.fixture
def url(tmp_path: Path) -> str:
    table = bs.create(f"{tmp_path}/t", schema=BY_KEY, key="id", sort_by=["name"])
    table.upsert(pa.Table.from_pylist([row(1), row(2), row(3)], schema=BY_KEY))
    return table.url


def row(key: int, n: int = 0) -> dict[str, Any]:
    return {"id": key, "name": f"{key % 3}", "n": n}


def frame(session: SparkSession, *rows: dict[str, Any], parts: int = 2) -> DataFrame:
    listed = [tuple(one.values()) for one in rows]
    return session.createDataFrame(listed, ROWS).repartition(parts)


def seen(url: str, *columns: str) -> list[tuple[Any, ...]]:
    names = columns or ("id", "n")
    rows = bs.open(url).snapshot().scan(columns=names).to_table().to_pylist()
    return sorted((tuple(one.values()) for one in rows), key=repr)


def chunks(url: str) -> int:
    return len(list(Path(url.removeprefix("file://")).glob("*/chunks/*.parquet")))


def test_a_job_is_one_block_of_changes_and_one_version(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    write(frame(spark_session, row(2, 20), row(3, 30), row(4, 40)), url)
    assert seen(url) == [(1, 0), (2, 20), (3, 30), (4, 40)]
    entry = list(bs.open(url).history())[-1]
    assert (entry.id, entry.operation, len(entry.add)) == (3, "upsert", 1)
    assert entry.add[0].meta.kind == "changes"
    assert len(entry.touched or b"") == 3 * 8
    found = spark_session.read.format("blockstore").load(url)
    assert values(found) == values(frame(spark_session, row(1), row(2, 20), row(3, 30), row(4, 40)))


def test_random_upserts_and_deletions_equal_the_oracle(
    spark_session: SparkSession, url: str
) -> None:
    random, oracle = Random(7), Oracle(lambda one: one["id"])
    oracle.put(2, [row(1), row(2), row(3)])
    for number in range(4):
        ids = random.sample(range(12), 7)
        rows = [row(key, 10 * number) for key in ids]
        gone = random.sample(ids, 2)
        df = frame(spark_session, *rows, parts=3).withColumn("_deleted", sf.col("id").isin(gone))
        (by_format if number % 2 else by_upsert)(df, url)
        version = bs.open(url).snapshot().version
        oracle.put(version, [one for one in rows if one["id"] not in gone])
        oracle.delete(version, gone)
    wanted = sorted(((key, one["n"]) for key, one in oracle.current().items()), key=repr)
    assert seen(url) == wanted
    for engine in ("native", "python"):
        found = bs_spark.read(spark_session, url, engine=engine, columns=["id", "n"])
        assert sorted((tuple(one) for one in found.collect()), key=repr) == wanted


def test_a_key_in_two_partitions_is_brought_together_and_refused(
    spark_session: SparkSession, url: str
) -> None:
    twice = frame(spark_session, row(7, 1), row(7, 2), *map(row, range(20, 40)), parts=4)
    with pytest.raises(Exception, match=r"the key \(id\) 7 occurs 2 times"):
        bs_spark.upsert(twice, url)
    apart = spark_session.range(0, 2, 1, 2).selectExpr("7L AS id", "'a' AS name", "id AS n")
    with pytest.raises(Exception, match=r"key \(id\) 7 occurs 2 times.*df.repartition\('id'\)"):
        apart.write.format("blockstore").option("write_mode", "upsert").mode("append").save(url)
    assert seen(url) == [(1, 0), (2, 0), (3, 0)]


def test_the_exchange_alone_finds_a_key_in_two_partitions_of_many_rows(
    spark_session: SparkSession, url: str
) -> None:
    """Tasks of so many rows report no hashes that the commit could compare."""
    halves = spark_session.range(0, 10_000, 1, 2)
    twice = halves.selectExpr("id % 5000 AS id", "'a' AS name", "id AS n")
    with pytest.raises(Exception, match=r"the key \(id\) \d+ occurs 2 times"):
        bs_spark.upsert(twice, url)
    assert seen(url) == [(1, 0), (2, 0), (3, 0)]
    bs_spark.upsert(twice, url, sequence_by="n")
    assert seen(url) == sorted(((key, key + 5_000) for key in range(5_000)), key=repr)


def test_sequence_by_says_which_row_counts_and_deletions_take_part(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    rows = frame(spark_session, row(1, 5), row(1, 7), row(1, 6), row(2, 1), row(2, 2), parts=4)
    df = rows.withColumn("_deleted", (sf.col("id") == 2) & (sf.col("n") == 2))
    write(df, url, sequence_by="n")
    assert seen(url) == [(1, 7), (3, 0)]


def test_a_job_that_runs_again_writes_nothing(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    write(frame(spark_session, row(1, 1)), url, app="nightly", batch=17)
    write(frame(spark_session, row(1, 2)), url)
    before = chunks(url)
    write(frame(spark_session, row(1, 1)), url, app="nightly", batch=17)
    assert (seen(url), chunks(url)) == ([(1, 2), (2, 0), (3, 0)], before)


def test_what_an_upsert_returns(spark_session: SparkSession, url: str) -> None:
    job = bs.Job(app="nightly", batch=1)
    did = bs_spark.upsert(frame(spark_session, row(1, 1), row(9, 1)), url, job=job, message="why")
    assert (did.operation, did.rows, did.version, did.published) == ("upsert", 2, 3, True)
    assert did.chunks >= 1
    assert list(bs.open(url).history())[-1].message == "why"
    again = bs_spark.upsert(frame(spark_session, row(1, 1)), url, job=job)
    assert (again.already, again.ulid, again.version) == (True, did.ulid, 3)
    nothing = bs_spark.upsert(frame(spark_session, row(1)).where("false"), url)
    assert (nothing.ulid, nothing.version) == (None, None)


def test_labels_are_part_of_the_identity(
    spark_session: SparkSession, write: Write, url: str
) -> None:
    for site, n in (("x", 1), ("y", 2), ("y", 3)):
        write(frame(spark_session, row(1, n)), url, labels=f"site={site}")
    assert [one for one in seen(url, "site", "id", "n") if one[1] == 1] == [
        ("x", 1, 1), ("y", 1, 3), (None, 1, 0),
    ]  # fmt: skip


def test_two_upserts_at_once_are_two_versions_and_never_conflict(
    spark_session: SparkSession, url: str
) -> None:
    frames = [frame(spark_session, row(1, n), row(10 + n, n)) for n in (1, 2)]
    did = Threads(2).map(lambda df: bs_spark.upsert(df, url), frames)
    assert {one.version for one in did} == {3, 4}
    later = 1 if did[0].version == 4 else 2
    assert seen(url) == sorted([(1, later), (2, 0), (3, 0), (11, 1), (12, 2)], key=repr)


def test_a_key_creates_a_missing_table(
    spark_session: SparkSession, write: Write, tmp_path: Path
) -> None:
    url = f"{tmp_path}/new"
    for n in (1, 2):
        write(frame(spark_session, row(1, n)), url, key="id")
    assert (seen(url), bs.open(url).definition.identity.columns) == ([(1, 2)], ("id",))


def test_of_two_attempts_at_one_partition_only_the_committed_one_counts(url: str) -> None:
    """Without Spark: its retries and its speculation are two calls of ``write_task``."""
    from blockstore.spark.types import spark_schema

    options = WriteOptions(url=url, mode=WriteMode.UPSERT)
    plan = plan_write(spark_schema(BY_KEY), options, World.real())
    rows = pa.RecordBatch.from_pylist([row(1, 1), row(2, 2)], schema=BY_KEY)
    winner, loser = write_task(plan, [rows]), write_task(plan, [rows])
    assert winner != loser
    assert winner is not None
    assert seen(url) == [(1, 0), (2, 0), (3, 0)]
    committing.commit(plan, [winner], World.real())
    assert seen(url) == [(1, 1), (2, 2), (3, 0)]


class TestRefusals:
    """One sentence, before a task runs."""

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"write_mode": "append"}, "has the key id.*use write_mode='upsert'"),
            ({"write_mode": "merge"}, "write_mode='merge': a data source cannot read"),
            ({"if_exists": "error"}, "write_mode='upsert' and if_exists='error' exclude"),
            ({"sequence_by": "x"}, "sequence_by names 'x', which the table does not have"),
            ({"key": "name"}, "option key='name', but .* was created with key='id'"),
            ({"write_mode": "append", "key": "id"}, "option 'key' is for upserts"),
            ({"write_mode": "append", "sequence_by": "n"}, "option 'sequence_by' is for upserts"),
        ],
    )
    def test_options(
        self, spark_session: SparkSession, url: str, options: dict[str, str], message: str
    ) -> None:
        before, version = chunks(url), bs.open(url).snapshot().version
        df = frame(spark_session, row(1, 1)).write.format("blockstore")
        with pytest.raises(Exception, match=message):
            df.options(**{"write_mode": "upsert", **options}).mode("append").save(url)
        assert (chunks(url), bs.open(url).snapshot().version) == (before, version)

    def test_an_overwrite_of_rows_that_have_versions(
        self, spark_session: SparkSession, url: str, tmp_path: Path
    ) -> None:
        by_id = bs.create(f"{tmp_path}/ids", schema=BY_KEY, row_ids=True)
        for target, way in ((url, "write_mode='upsert'"), (by_id.url, "append new rows")):
            with pytest.raises(bs.Invalid, match=f"rows of .* have versions.*{way}"):
                bs_spark.overwrite(frame(spark_session, row(1)), target)
        with pytest.raises(Exception, match="have versions"):
            frame(spark_session, row(1)).write.format("blockstore").mode("overwrite").save(url)
        with pytest.raises(Exception, match="write_mode='upsert' and an overwrite exclude"):
            frame(spark_session, row(1)).write.format("blockstore").option(
                "write_mode", "upsert"
            ).mode("overwrite").save(url)

    def test_an_upsert_of_rows_without_a_key(
        self, spark_session: SparkSession, tmp_path: Path
    ) -> None:
        plain = bs.create(f"{tmp_path}/plain", schema=BY_KEY)
        by_id = bs.create(f"{tmp_path}/ids", schema=BY_KEY, row_ids=True)
        for target, message in (
            (plain.url, "the rows of .* have none"),
            (by_id.url, "has row ids: append new rows"),
            (f"{tmp_path}/missing", "the rows of .* have none.*key='id'"),
        ):
            with pytest.raises(bs.Invalid, match=message):
                bs_spark.upsert(frame(spark_session, row(1)), target)
        assert not Path(f"{tmp_path}/missing").exists()

    def test_a_column_of_deletions_that_is_none(
        self, spark_session: SparkSession, url: str
    ) -> None:
        df = frame(spark_session, row(1))
        with pytest.raises(
            bs.Invalid, match="column '_deleted' has the type string, expected bool"
        ):
            bs_spark.upsert(df.withColumn("_deleted", sf.lit("yes")), url)
        with pytest.raises(Exception, match="column '_deleted' is null in row 0"):
            bs_spark.upsert(df.withColumn("_deleted", sf.lit(None).cast("boolean")), url)
        with pytest.raises(bs.Invalid, match="'_deleted' is reserved"):
            bs_spark.append(df.withColumn("_deleted", sf.lit(True)), f"{url}-new")
        assert seen(url) == [(1, 0), (2, 0), (3, 0)]


def test_an_append_gives_new_rows_their_ids(spark_session: SparkSession, tmp_path: Path) -> None:
    """A table with row ids takes appends as any table does, by both ways."""
    table = bs.create(f"{tmp_path}/ids", schema=BY_KEY, row_ids=True, sort_by=["id"])
    bs_spark.append(frame(spark_session, row(1), row(2), parts=1), table.url)
    df = frame(spark_session, row(3), parts=1)
    df.write.format("blockstore").mode("append").save(table.url)
    bs.open(table.url).delete_rows([1])
    columns = ["_row_id", "_version", "id"]
    found = bs_spark.read(spark_session, table.url, columns=columns).orderBy("id").collect()
    assert [tuple(one) for one in found] == [(0, 2, 1), (2, 3, 3)]
