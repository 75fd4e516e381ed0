"""Columns without a null are declared so on request, exactly those, and never against what the rows
say."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.world import World

SCHEMA = "id bigint, word string, l array<bigint>"


def load(session: SparkSession, url: str, **options: str) -> DataFrame:
    return session.read.format("blockstore").options(**options).load(url)


def not_null(frame: DataFrame) -> set[str]:
    return {field.name for field in frame.schema.fields if not field.nullable}


@pytest.fixture
def url(spark_session: SparkSession, tmp_path: Path) -> str:
    """Version 2 has no null, version 3 one in ``word``; of a list no block says how many it
    holds."""
    url = str(tmp_path / "t")
    for rows in ([(1, "a", [1, None]), (2, "b", [])], [(3, None, [3])]):
        bs_spark.append(spark_session.createDataFrame(rows, SCHEMA).coalesce(1), url)
    return url


def test_exactly_the_columns_without_a_null_in_the_snapshot(
    spark_session: SparkSession, url: str
) -> None:
    assert not_null(load(spark_session, url)) == set()
    assert not_null(load(spark_session, url, not_null="true")) == {"id"}
    assert not_null(load(spark_session, url, not_null="true", version="2")) == {"id", "word"}
    hidden = load(spark_session, url, not_null="true", columns="word,id,_source,_row_id")
    assert [field.nullable for field in hidden.schema.fields] == [True, False, True, True]


def test_rows_are_the_same(spark_session: SparkSession, url: str) -> None:
    for version in ("2", "3"):
        found = load(spark_session, url, not_null="true", version=version)
        assert sorted(found.collect()) == sorted(
            load(spark_session, url, version=version).collect()
        )
        assert found.where("id IS NULL").count() == 0
        assert found.where("word IS NULL").count() == int(version == "3")


def test_a_column_that_is_younger_than_a_chunk_holds_nulls(
    spark_session: SparkSession, url: str
) -> None:
    bs.open(url).alter(add=[pa.field("young", pa.int64())])
    bs_spark.append(
        spark_session.createDataFrame([(4, "d", [4], 5)], f"{SCHEMA}, young bigint"), url
    )
    found = load(spark_session, url, not_null="true")
    assert not_null(found) == {"id"}
    assert sorted(row.young or 0 for row in found.collect()) == [0, 0, 0, 5]


def test_an_empty_table_declares_nothing(spark_session: SparkSession, tmp_path: Path) -> None:
    url = str(tmp_path / "empty")
    bs.create(url, schema=pa.schema([("id", pa.int64())]))
    assert not_null(load(spark_session, url, not_null="true")) == set()


def test_statistics_that_lie_are_an_error_and_no_other_value(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    url = str(tmp_path / "t")
    table = bs.create(
        url, schema=pa.schema([("word", pa.string())]), index=False, world=World.manual()
    )
    table.append(pa.table({"word": pa.array([None, "b"], pa.string())}))
    (meta,) = (tmp_path / "t").glob("*/meta.json")
    said = json.loads(meta.read_text())
    (file,) = said["blockstore"]["files"]
    assert file["columns"]["word"]["nulls"] == 1
    file["columns"]["word"]["nulls"] = 0
    said["blockstore"]["ignore_delay"] = True
    meta.write_text(json.dumps(said))
    frame = load(spark_session, url, not_null="true")
    assert "word" in not_null(frame)
    with pytest.raises(Exception, match="declared not null and contains 1 nulls"):
        frame.collect()


def test_a_schema_of_the_users_own_that_is_wrong_is_an_error(
    spark_session: SparkSession, url: str
) -> None:
    own = spark_session.read.format("blockstore").schema("id bigint, word string not null")
    with pytest.raises(Exception, match="column 'word' is declared not null and contains 1 nulls"):
        own.load(url).collect()
