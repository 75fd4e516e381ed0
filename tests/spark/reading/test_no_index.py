"""Spark on tables without an index: appends become visible by their age, reads are one listing,
jobs are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.names import meta_key
from blockstore.world import World
from tests.spark.rows import flights
from tests.support.aged import believe_mtime

SCHEMA = pa.schema([("origin", pa.string()), ("delay", pa.int64())])
LONG_AGO_S = 1_700_000_000


@pytest.fixture(autouse=True)
def files_of_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    believe_mtime(monkeypatch)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Two blocks of three rows, written long ago."""
    url = str(tmp_path / "plain")
    table = bs.create(url, schema=SCHEMA, index=False, world=World.manual())
    for number in (1, 2):
        table.append(
            pa.table(
                {"origin": ["EWR", "JFK", "LGA"], "delay": [number, 10 * number, 0]}, schema=SCHEMA
            )
        )
    return url


@pytest.mark.parametrize("engine", ["native", "python"])
def test_a_dataframe_is_one_listing(spark_session: SparkSession, url: str, engine: str) -> None:
    found = bs_spark.read(spark_session, url, where="origin <> 'LGA'", engine=engine)
    assert sorted(row.delay for row in found.collect()) == [1, 2, 10, 20]
    older = bs.open(url, discovery="list", world=World.manual(seed=9))
    older.append(pa.table({"origin": ["EWR"], "delay": [99]}, schema=SCHEMA))
    assert found.count() == 4, "what comes later is not seen by a DataFrame that was made before"
    assert bs_spark.read(spark_session, url, engine=engine).count() == 7


def test_an_append_is_one_block_that_waits_for_its_age(
    spark_session: SparkSession, url: str
) -> None:
    rows = spark_session.createDataFrame([("SFO", 7), ("SFO", 8)], "origin string, delay long")
    block = bs_spark.append(rows, url)
    assert (block.version, block.published, block.rows) == (None, False, 2)
    rows.write.format("blockstore").mode("append").save(url)
    assert bs_spark.read(spark_session, url).count() == 6
    waived = bs.open(url, discovery="list", properties={"sync_delay": "0s"})
    assert waived.snapshot().count() == 10


def test_a_job_and_a_version_are_refused_in_a_sentence(
    spark_session: SparkSession, url: str
) -> None:
    rows = flights(spark_session, ("EWR", 1, 1), day=1).select("origin", "delay")
    before = sorted(Path(url).rglob("*"))
    with pytest.raises(bs.Invalid, match="has no index"):
        bs_spark.append(rows, url, job=bs.Job("load", 1))
    with pytest.raises(bs.Invalid, match="has no index"):
        bs_spark.read(spark_session, url, version=1)
    assert sorted(Path(url).rglob("*")) == before


def test_a_malformed_block_fails_the_read_by_name(spark_session: SparkSession, url: str) -> None:
    bad = next(path.name for path in Path(url).iterdir())
    place = Path(url) / meta_key(bad)
    place.write_bytes(b"{")
    os.utime(place, (LONG_AGO_S, LONG_AGO_S))
    with pytest.raises(bs.Corrupt, match=bad):
        bs_spark.read(spark_session, url)
