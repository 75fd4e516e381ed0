"""Rows by Python over ``mapInArrow``: those of the data source, one task a share, pinned."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.spark.reading import mapped

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), metadata={"blockstore.unit": "m"}),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("nested", pa.struct([("n", pa.int32()), ("texts", pa.list_(pa.string()))])),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("small", pa.uint8()),
    ]
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Three blocks of two rows; every column but ``id`` holds a null."""
    url = str(tmp_path / "odd")
    table = bs.create(url, schema=SCHEMA)
    for day in range(3):
        table.append(pa.Table.from_pylist([_row(day), {"id": 10 * day + 1}], schema=SCHEMA))
    return url


def _row(day: int) -> dict[str, object]:
    nested = {"n": day, "texts": ["a", None]}
    return {
        "id": 10 * day,
        "at": 10**15 + day,
        "local": day,
        "nested": nested,
        "price": Decimal("1.25"),
        "small": 200,
    }


def test_rows_and_schema_are_those_of_the_data_source(
    spark_session: SparkSession, url: str
) -> None:
    found = bs_spark.read(spark_session, url, engine="python")
    source = spark_session.read.format("blockstore").load(url)
    assert found.schema == source.schema
    assert [field.metadata for field in found.schema] == [field.metadata for field in source.schema]
    assert sorted(map(str, found.collect())) == sorted(map(str, source.collect()))
    assert "BatchScan" not in _plan(found)


def test_each_share_is_a_task_and_only_chunks_that_can_match_have_one(
    spark_session: SparkSession, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockstore.spark.reading.shares.LEAST_BYTES", 1)
    monkeypatch.setattr("blockstore.spark.reading.shares.USUAL_TASKS", 3)
    whole = bs_spark.read(spark_session, url, engine="python")
    assert whole.rdd.getNumPartitions() == 3
    assert whole.count() == 6
    monkeypatch.undo()
    few = bs_spark.read(spark_session, url, engine="python", where="id = 11")
    assert few.rdd.getNumPartitions() == 1
    assert [row.id for row in few.collect()] == [11]
    none = bs_spark.read(spark_session, url, engine="python", where="id = 99")
    assert (none.count(), none.columns) == (0, SCHEMA.names)


def test_a_plan_of_too_many_shares_is_left_to_the_data_source(
    spark_session: SparkSession, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped, "MOST_BYTES", 0)
    found = bs_spark.read(spark_session, url, engine="python", where="id < 2")
    assert "BatchScan" in _plan(found)
    assert sorted(row.id for row in found.collect()) == [0, 1]


def test_a_chunk_that_is_gone_fails_the_job_and_is_named(
    spark_session: SparkSession, url: str
) -> None:
    found = bs_spark.read(spark_session, url, engine="python")
    chunk = next(Path(url).glob("*/chunks/*.parquet"))
    chunk.unlink()
    with pytest.raises(Exception, match=chunk.parent.parent.name):
        found.count()


def _plan(frame: object) -> str:
    return str(frame._jdf.queryExecution().executedPlan())  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", ["python", "native", "load"])
def test_a_large_table_is_never_sent_to_every_executor_and_a_small_one_may_be(
    spark_session: SparkSession, tmp_path: Path, engine: str
) -> None:
    for name, rows in {"large": 1_500_000, "small": 100}.items():
        # Numbers in no order: the size on disk is that in memory.
        ids = pa.array(np.random.default_rng(1).integers(0, 2**62, rows))
        bs.create(f"{tmp_path}/{name}", schema=pa.schema([("id", pa.int64())])).append(
            pa.table({"id": ids})
        )

    def read(name: str) -> DataFrame:
        if engine == "load":
            return spark_session.read.format("blockstore").load(f"{tmp_path}/{name}")
        return bs_spark.read(spark_session, f"{tmp_path}/{name}", engine=engine)

    assert "BroadcastHashJoin" not in _plan(
        read("large").join(read("large").alias("b"), "id", "left")
    )
    if engine != "load":
        assert "BroadcastHashJoin" in _plan(
            read("large").join(read("small").alias("b"), "id", "left")
        )
    assert read("small").count() == 100
