"""Spark's own catalog, and SQL: what a name of a table means to a data source, and what is refused
before a row is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import blockstore as bs
from blockstore import spark as bs_spark
from tests.repo.fenced import blocks

NO_URL = (
    r"no table URL is given: pass it, as in \.save\('s3://lake/flights'\)\. Spark does not pass .* "
    r"\(saveAsTable, insertInto, CREATE TABLE\)"
)
VIEW = r"CREATE TEMPORARY VIEW flights USING blockstore OPTIONS \(path 's3://lake/flights'\)"


@pytest.fixture
def session(spark_session: SparkSession) -> Iterator[SparkSession]:
    """A session in whose catalog there is nothing, before and after."""
    yield spark_session
    for table in spark_session.catalog.listTables():
        drop = "VIEW" if table.isTemporary else "TABLE"
        spark_session.sql(f"DROP {drop} {table.name}")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "numbers")


def save(rows: DataFrame, url: str) -> None:
    rows.write.format("blockstore").mode("append").save(url)


def in_a_thread(call: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()


@pytest.mark.parametrize(
    "write",
    [
        lambda rows: rows.write.format("blockstore").saveAsTable("t"),
        lambda rows: rows.write.format("blockstore").mode("append").saveAsTable("t"),
        lambda rows: rows.write.format("blockstore").mode("overwrite").saveAsTable("t"),
        lambda rows: rows.writeTo("t").using("blockstore").create(),
        lambda rows: rows.sparkSession.sql("CREATE TABLE t USING blockstore AS SELECT 1 AS id"),
    ],
)
def test_a_name_of_the_catalog_is_no_table_of_ours(
    session: SparkSession, write: Callable[[DataFrame], Any]
) -> None:
    with pytest.raises(Exception, match=f"{NO_URL}.*{VIEW}"):
        write(session.range(3))
    assert session.catalog.listTables() == []


def test_a_stream_into_a_name_of_the_catalog_writes_no_row(
    session: SparkSession, tmp_path: Path
) -> None:
    stream = session.readStream.format("rate").load().writeStream.format("blockstore")
    with pytest.raises(Exception, match=NO_URL):
        stream.option("checkpointLocation", str(tmp_path / "checkpoint")).toTable(
            "t"
        ).processAllAvailable()


@pytest.mark.parametrize("place", ["LOCATION '{url}'", "OPTIONS (path '{url}')"])
def test_neither_its_rows_nor_new_ones_go_by_a_name_that_was_made_with_columns(
    session: SparkSession, url: str, place: str
) -> None:
    save(session.range(3), url)
    session.sql(f"CREATE TABLE t (id BIGINT) USING blockstore {place.format(url=url)}")
    for use in (
        lambda: session.range(5).write.insertInto("t"),
        lambda: session.sql("INSERT INTO t VALUES (7)"),
    ):
        with pytest.raises(Exception, match=NO_URL):
            use()
    with pytest.raises(Exception, match=r"no table URL is given: pass it, as in \.load"):
        session.table("t").collect()
    assert bs.open(url).snapshot().count() == 3


def test_a_name_that_was_made_without_columns_is_refused(session: SparkSession, url: str) -> None:
    save(session.range(3), url)
    for make in (
        lambda: session.sql(f"CREATE TABLE t USING blockstore OPTIONS (path '{url}')"),
        lambda: session.catalog.createTable("t", path=url, source="blockstore"),
    ):
        with pytest.raises(Exception, match=f"Spark does not pass .*{VIEW}"):
            make()
    assert session.catalog.listTables() == []


def test_with_a_path_the_rows_are_in_the_table_once_and_the_name_says_how_to_read_it(
    session: SparkSession, url: str
) -> None:
    """Spark hands a data source the same for ``saveAsTable`` with a path and for ``save``."""
    session.range(3).write.format("blockstore").option("path", url).saveAsTable("t")
    assert session.read.format("blockstore").load(url).count() == 3
    with pytest.raises(Exception, match=r"as in \.load\('s3://lake/flights'\)"):
        session.table("t").collect()
    assert session.read.option("path", url).table("t").count() == 3
    for rows in (5, 6):
        session.range(rows).write.format("blockstore").option("path", url).mode(
            "overwrite"
        ).saveAsTable("t")
    session.sql("DROP TABLE t PURGE")
    assert bs.open(url).snapshot().count() == 6
    operations = [entry.operation for entry in bs.open(url).history()]
    assert operations == ["create", "append", "overwrite", "overwrite"]


def test_the_view_of_the_page_is_read_and_written(session: SparkSession, url: str) -> None:
    (block,) = [one for one in blocks("docs/guides/spark.md") if one.language == "sql"]
    jfk = "SELECT 'JFK' AS origin, TIMESTAMP '2024-02-01 08:00:00' AS at, 70L AS delay"
    save(session.sql(jfk), url)
    statements = [
        one for one in block.text.replace("s3://lake/flights", url).split(";") if one.strip()
    ]
    answers = [[tuple(row) for row in session.sql(one).collect()] for one in statements]
    assert answers == [[], [("JFK", 70)], [], [], [("EWR", 10), ("JFK", 70)]]
    session.sql(f"INSERT OVERWRITE flights {jfk}")
    assert bs.open(url).snapshot().count() == 1
    session.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW flights USING blockstore OPTIONS (path '{url}', "
        "version '3')"
    )
    assert session.table("flights").count() == 2
    with pytest.raises(Exception, match="no write option 'version'"):
        session.sql(f"INSERT INTO flights {jfk}")
    assert bs.open(url).snapshot().count() == 1


def test_a_columns_comment_is_described(session: SparkSession, url: str) -> None:
    save(session.range(1).withMetadata("id", {"comment": "a number"}), url)
    session.sql(f"CREATE TEMPORARY VIEW numbers USING blockstore OPTIONS (path '{url}')")
    assert [row.comment for row in session.sql("DESCRIBE numbers").collect()] == ["a number"]


def test_a_thread_of_ones_own_saves_once_the_session_is_registered_in_it(
    session: SparkSession, url: str
) -> None:
    rows = session.range(3)

    def register_and_save() -> None:
        bs_spark.register(session)
        save(rows, url)

    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        in_a_thread(lambda: save(rows, url))
    in_a_thread(register_and_save)
    in_a_thread(lambda: bs_spark.append(rows, url))
    in_a_thread(lambda: bs_spark.overwrite(session.range(7, 8), url, where="id = 7"))
    assert in_a_thread(lambda: session.read.format("blockstore").load(url).count()) == 7
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        in_a_thread(lambda: save(rows, url))
    assert [entry.operation for entry in bs.open(url).history()] == [
        "create",
        "append",
        "append",
        "overwrite",
    ]
