"""MERGE on Spark and values: what no clause sets stays bit by bit, and a value of another type is
the column's or refused."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.errors import Invalid

BIG = 2**53 + 1
LONG = Decimal("12345678901234567890.123456789012345678")
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int64()),
        ("d", pa.decimal128(38, 18)),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("small", pa.int8()),
        ("price", pa.decimal128(10, 2)),
        ("yes", pa.bool_()),
        ("day", pa.date32()),
    ]
)


def made(url: str) -> bs.Table:
    table = bs.create(url, schema=SCHEMA, key="id")
    rows = [{"id": 1, "n": 1}, {"id": 2, "n": BIG, "d": LONG, "s": "07"}]
    table.upsert(pa.Table.from_pylist(rows, SCHEMA))
    return table


def row(table: bs.Table, key: int) -> dict[str, Any]:
    rows = bs.open(table.url).snapshot().scan().to_table().to_pylist()
    return next(one for one in rows if one["id"] == key)


def test_values_of_other_clauses_and_of_none_stay_as_they_are(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    table = made(f"{tmp_path}/t")
    spark_session.createDataFrame(
        [(1, 2.0), (2, 3.0), (3, 4.0)], "id long, f double"
    ).createOrReplaceTempView("doubles")
    bs_spark.sql(
        spark_session,
        f"MERGE INTO blockstore.`{table.url}` t USING doubles s ON t.id = s.id "
        "WHEN MATCHED AND t.n < 100 THEN UPDATE SET n = round(s.f), d = s.f, s = 'x' "
        "WHEN MATCHED THEN UPDATE SET small = 7 "
        "WHEN NOT MATCHED THEN INSERT (id, n, d) VALUES (s.id, 9007199254740993, s.f)",
    )
    assert row(table, 2) == {**row(table, 2), "n": BIG, "d": LONG, "s": "07", "small": 7}
    assert row(table, 1) == {**row(table, 1), "n": 2, "d": Decimal(2), "s": "x", "small": None}
    assert row(table, 3) == {**row(table, 3), "n": BIG, "d": Decimal(4), "s": None}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_value_becomes_one_of_its_column_or_is_refused(
    spark_session: SparkSession, tmp_path: Path, ansi: str
) -> None:
    table = made(f"{tmp_path}/t")
    before = spark_session.conf.get("spark.sql.ansi.enabled")
    assert before is not None
    spark_session.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        bs_spark.sql(
            spark_session,
            f"UPDATE blockstore.`{table.url}` SET small = n + 6L, f = 3, price = 0.1e0 + 0.2e0, "
            "d = CAST(5 AS DECIMAL(10, 2)), yes = NULL, day = DATE'1500-01-02' WHERE id = 1",
        )
        found = row(table, 1)
        assert (found["small"], found["f"], found["price"]) == (7, 3.0, Decimal("0.30"))
        assert (found["d"], found["day"]) == (Decimal(5), datetime.date(1500, 1, 2))
        for value in ("n = 7.5e0", "n = 7.5", "small = 128", "f = 9007199254740993L",
                      "price = 1.005", "price = 1e300", "small = -1e9"):  # fmt: skip
            name = value.split(" ")[0]
            with pytest.raises(Exception, match=rf"gives column '{name}' .*cannot hold as it is"):
                bs_spark.sql(
                    spark_session, f"UPDATE blockstore.`{table.url}` SET {value} WHERE id = 1"
                )
        for value in ("s = 7", "yes = 1", "day = TIMESTAMP'2020-01-01'", "n = '7'"):
            with pytest.raises(Invalid, match=r"a value of type .*: cast it"):
                bs_spark.sql(spark_session, f"UPDATE blockstore.`{table.url}` SET {value}")
        assert row(table, 1) == found
    finally:
        spark_session.conf.set("spark.sql.ansi.enabled", before)


def test_a_value_that_fails_for_other_rows_is_computed_for_its_own_alone(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    table = made(f"{tmp_path}/t")
    text = f"UPDATE blockstore.`{table.url}` SET n = 10 div (id - 1) WHERE id > 1"
    assert bs_spark.sql(spark_session, text).updated == 1
    assert row(table, 2)["n"] == 10


def test_columns_may_have_any_name(spark_session: SparkSession, tmp_path: Path) -> None:
    names = ["_action", "_in_target", "_in_source", "_inserted", "_effect", "_key_0", "a.b", "a`b"]
    schema = pa.schema([("id", pa.int64()), *((name, pa.bool_()) for name in names)])
    table = bs.create(f"{tmp_path}/t", schema=schema, key="id")
    table.upsert(pa.table({"id": [1], **{name: [False] for name in names}}, schema))
    columns = ", ".join(["id long", *(f"`{name.replace('`', '``')}` boolean" for name in names)])
    rows = [(1, *(None for _ in names)), (2, *(False for _ in names))]
    source = spark_session.createDataFrame(rows, columns)
    done = (
        bs_spark.merge_into(source, table.url, "id")
        .when_matched_update({"_in_target": "source._in_source"})
        .when_not_matched_insert()
        .execute()
    )
    assert (done.inserted, done.updated) == (1, 1)
    nothing = {"id": 1, **dict.fromkeys(names, False), "_in_target": None}
    assert row(table, 1) == nothing
    assert row(table, 2) == {"id": 2, **dict.fromkeys(names, False)}
