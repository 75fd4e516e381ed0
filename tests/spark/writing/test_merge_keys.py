"""MERGE on Spark and keys: an insert replaces no row, an update moves none, and a column of which
an insert says nothing gets its default, as by ``Table.merge``."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import blockstore as bs
from blockstore import spark as bs_spark

SCHEMA = pa.schema([("id", pa.int64()), ("mail", pa.string()), ("n", pa.int64())])
ROWS = [{"id": 1, "mail": "a", "n": 1}, {"id": 2, "mail": "b", "n": 2}]


def table_of(url: str, rows: list[dict[str, Any]] = ROWS) -> bs.Table:
    table = bs.create(url, schema=SCHEMA, key="id")
    table.upsert(pa.Table.from_pylist(rows, SCHEMA))
    return table


def contents(table: bs.Table) -> list[dict[str, Any]]:
    rows = bs.open(table.url).snapshot().scan().to_table().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def frame(session: SparkSession, *rows: tuple[Any, ...]) -> Any:
    return session.createDataFrame(list(rows), "id long, mail string, n long")


@pytest.mark.parametrize(
    ("on", "values"),
    [
        ("mail", None),
        (["id", "mail"], None),
        ("id = key", None),
        ("id", {"id": "source.id - 10", "mail": "source.mail", "n": "source.n"}),
    ],
    ids=["another column", "the key and another", "a condition", "another value"],
)
def test_an_insert_replaces_no_row_that_was_not_matched(
    spark_session: SparkSession, tmp_path: Path, on: Any, values: dict[str, str] | None
) -> None:
    table = table_of(f"{tmp_path}/t")
    moved = 10 if values else 0
    source = frame(spark_session, (2 + moved, "new", 20), (3 + moved, "c", 30))
    where = sf.expr("source.id = target.id AND target.n > 5") if on == "id = key" else on
    merge = bs_spark.merge_into(source, table.url, where).when_not_matched_insert(values)
    with pytest.raises(Exception, match=r"key \(id\) 2 exists already.*name the key in on"):
        merge.execute()
    assert contents(table) == ROWS
    merge = bs_spark.merge_into(source, table.url, where)
    done = merge.when_not_matched_insert(values, condition="source.mail = 'c'").execute()
    assert done.inserted == 1
    assert contents(table) == [*ROWS, {"id": 3, "mail": "c", "n": 30}]


def test_a_statement_replaces_no_row_that_was_not_matched(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    table = table_of(f"{tmp_path}/t")
    frame(spark_session, (2, "new", 20), (3, "c", 30)).createOrReplaceTempView("arrived")
    text = (
        f"MERGE INTO blockstore.`{table.url}` AS t USING arrived AS s ON {{}} "
        "WHEN NOT MATCHED THEN INSERT {}"
    )
    for on in ("s.mail = t.mail", "t.id = s.id AND t.n > 5", "t.id = s.id AND t.id = s.n"):
        with pytest.raises(Exception, match=r"key \(id\) 2 exists already"):
            bs_spark.sql(spark_session, text.format(on, "*"))
    assert contents(table) == ROWS
    named = "(id, mail, n) VALUES (s.id, s.mail, 7)"
    done = bs_spark.sql(spark_session, text.format("(t.id = s.id)", named))
    assert done.inserted == 1
    assert contents(table) == [*ROWS, {"id": 3, "mail": "c", "n": 7}]


def test_the_table_is_read_once_where_the_key_says_that_rows_are_new(
    spark_session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(f"{tmp_path}/t")
    looked = []
    monkeypatch.setattr(
        "blockstore.spark.writing.merge_into.looked_up",
        lambda rows, *_: looked.append(True) or rows,
    )
    source = frame(spark_session, (3, "c", 30))
    bs_spark.merge_into(source, table.url, "id").when_not_matched_insert().execute()
    source.createOrReplaceTempView("arrived")
    bs_spark.sql(
        spark_session,
        f"MERGE INTO blockstore.`{table.url}` AS t USING arrived AS s ON s.id = t.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
    )
    assert not looked
    bs_spark.merge_into(source, table.url, "mail").when_not_matched_insert().execute()
    assert looked


def test_a_matched_row_keeps_its_key(spark_session: SparkSession, tmp_path: Path) -> None:
    table = table_of(f"{tmp_path}/t")
    other = frame(spark_session, (7, "b", 20))
    with pytest.raises(Exception, match=r"row with the key \(id\) 2 another key"):
        bs_spark.merge_into(other, table.url, "mail").when_matched_update().execute()
    other = frame(spark_session, (1, "b", 20))
    with pytest.raises(Exception, match=r"row with the key \(id\) 2 another key"):
        bs_spark.merge_into(other, table.url, "mail").when_matched_update().execute()
    assert contents(table) == ROWS
    same = frame(spark_session, (2, "b", 20))
    assert bs_spark.merge_into(same, table.url, "mail").when_matched_update().execute().updated == 1
    without = same.select("mail", (sf.col("n") + 1).alias("n"))
    merge = bs_spark.merge_into(without, table.url, "mail").when_matched_update()
    assert merge.execute().updated == 1
    assert contents(table) == [ROWS[0], {"id": 2, "mail": "b", "n": 21}]


DEFAULTS: list[tuple[pa.DataType, Any]] = [
    (pa.bool_(), True),
    (pa.int8(), -3),
    (pa.uint64(), 2**64 - 1),
    (pa.float32(), 0.1),
    (pa.float64(), 1e300),
    (pa.decimal128(10, 2), Decimal("-1.50")),
    (pa.string(), "it's “a”"),
    (pa.date32(), datetime.date(1500, 2, 3)),
    (pa.time64("us"), datetime.time(1, 2, 3, 4)),
    (pa.timestamp("us"), datetime.datetime(1999, 1, 2, 3, 4, 5, 678901)),
    (pa.timestamp("us", tz="UTC"), datetime.datetime(1999, 1, 2, 3, tzinfo=datetime.UTC)),
    (pa.timestamp("ns"), datetime.datetime(1999, 1, 2, 3, 4, 5, 678901)),
]


def test_a_column_of_which_an_insert_says_nothing_gets_its_default(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    fields = [pa.field("id", pa.int64())]
    for at, (kind, value) in enumerate(DEFAULTS):
        fields.append(bs.column(f"c{at}", kind, default=value))
    fields.append(pa.field("note", pa.string()))
    table = bs.create(f"{tmp_path}/t", schema=pa.schema(fields), key="id")
    table.upsert(pa.table({"id": [1], "note": ["here"]}))
    source = spark_session.createDataFrame([(2, False), (3, None)], "id long, c0 boolean")
    done = (
        bs_spark.merge_into(source, table.url, "id")
        .when_not_matched_insert({"id": "source.id"}, condition="source.id = 2")
        .when_not_matched_insert()
        .execute()
    )
    assert done.inserted == 2
    plain, named, whole = contents(table)
    assert {**named, "id": 1, "note": "here"} == plain
    assert {**whole, "id": 1, "note": "here"} == {**plain, "c0": None}
    assert [named[f"c{at}"] for at in (1, 2, 6, 7, 8)] == [
        -3, 2**64 - 1, "it's “a”", datetime.date(1500, 2, 3), datetime.time(1, 2, 3, 4)
    ]  # fmt: skip
