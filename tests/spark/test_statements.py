"""Statements that change a table, as texts of Spark's SQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.errors import Invalid
from tests.repo.fenced import blocks

MERGE = "MERGE INTO {t} AS t USING {t} AS s ON t.id = s.id "
BY_KEY = pa.schema([("id", pa.int64()), ("name", pa.string()), ("n", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> bs.Table:
    table = bs.create(f"{tmp_path}/t", schema=BY_KEY, key="id")
    table.upsert(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "n": [10, 20, 30]}, BY_KEY))
    return table


def seen(table: bs.Table) -> list[tuple[Any, ...]]:
    rows = bs.open(table.url).snapshot().scan().to_table().to_pylist()
    return sorted((tuple(one.values()) for one in rows), key=repr)


def test_a_merge_with_every_clause(spark_session: SparkSession, table: bs.Table) -> None:
    rows = "VALUES (1, 'x', 1), (2, 'y', -1), (4, 'z', 4), (5, 'w', -5) AS v(id, name, n)"
    spark_session.sql(f"SELECT * FROM {rows}").createOrReplaceTempView("updates")
    done = bs_spark.sql(
        spark_session,
        f"""
        MERGE INTO blockstore.`{table.url}` AS t
        USING (SELECT * FROM updates WHERE id < 100) AS s
        ON t.id = s.id
        WHEN MATCHED AND s.n < 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET n = t.n + s.n, t.name = upper(s.name)
        WHEN NOT MATCHED BY TARGET AND s.n > 0 THEN INSERT *
        WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, abs(s.n))
        WHEN NOT MATCHED BY SOURCE AND t.n > 1000 THEN DELETE
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = 0
        """,
        message="nightly",
    )
    assert (done.inserted, done.updated, done.deleted) == (2, 2, 1)
    assert seen(table) == [(1, "X", 11), (3, "c", 0), (4, "z", 4), (5, None, 5)]
    entry = list(bs.open(table.url).history())[-1]
    assert (entry.operation, entry.message) == ("merge", "nightly")


def test_a_merge_of_one_table_into_another_by_names(
    spark_session: SparkSession, table: bs.Table, tmp_path: Path
) -> None:
    other = bs.create(f"{tmp_path}/other", schema=BY_KEY, key="id")
    other.upsert(pa.table({"id": [3, 4], "name": ["n", "m"], "n": [1, 2]}, BY_KEY))
    bs_spark.sql(
        spark_session,
        "MERGE INTO t USING o ON target.id = o.id AND target.n > 5 "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        tables={"t": table.url, "o": other.url},
    )
    assert seen(table) == [(1, "a", 10), (2, "b", 20), (3, "n", 1), (4, "m", 2)]


def test_an_update_and_a_delete(spark_session: SparkSession, table: bs.Table) -> None:
    named = f"blockstore.`{table.url}`"
    done = bs_spark.sql(spark_session, f"UPDATE {named} AS t SET n = t.n * 2 WHERE id >= 2")
    assert (done.inserted, done.updated, done.deleted) == (0, 2, 0)
    done = bs_spark.sql(
        spark_session, f"DELETE FROM {named} WHERE n = 40", job=bs.Job(app="a", batch=1)
    )
    assert (done.inserted, done.updated, done.deleted) == (0, 0, 1)
    again = bs_spark.sql(
        spark_session, f"DELETE FROM {named} WHERE n = 10", job=bs.Job(app="a", batch=1)
    )
    assert again.already
    assert seen(table) == [(1, "a", 10), (3, "c", 60)]


def test_an_insert_takes_a_select_of_spark(spark_session: SparkSession, tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/ids", schema=BY_KEY, row_ids=True)
    for text in ("SELECT 1L, 'a', 5L", "VALUES (2L, 'b', 6L)"):
        bs_spark.sql(spark_session, f"INSERT INTO blockstore.`{table.url}` {text}")
    bs_spark.sql(spark_session, f"INSERT INTO blockstore.`{table.url}` (n, id) VALUES (7L, 3L)")
    assert seen(table) == [(1, "a", 5), (2, "b", 6), (3, None, 7)]


def test_the_merges_of_the_guide(spark_session: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("seen", pa.int64())])
    table = bs.create(f"{tmp_path}/customers", schema=schema, key="id")
    rows = {"id": [1, 2, 3], "name": ["Ada", "Gone", "Bo"], "seen": [1, 1, 9]}
    table.upsert(pa.table(rows, schema))
    given = {"spark": spark_session, "bs": bs, "bs_spark": bs_spark}
    for block in blocks("docs/guides/spark.md"):
        if block.text.startswith("news"):
            exec(block.text.replace("s3://lake/customers", table.url), given)
    assert seen(table) == [(1, "Ada", 6), (3, "Bo", 9), (7, "New", 6)]
    jobs = [entry.job and entry.job.app for entry in bs.open(table.url).history()]
    assert jobs == [None, None, "news", None]


@pytest.mark.timeout(1200)
def test_the_merge_of_a_stream_of_the_guide_writes_its_batches_again_with_a_new_checkpoint(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("seen", pa.int64())])
    table = bs.create(f"{tmp_path}/customers", schema=schema, key="id")
    moved = bs.create(f"{tmp_path}/moved", schema=schema)
    moved.append(pa.table({"id": [1, 7], "name": ["Ada", "New"], "seen": [5, 5]}, schema))
    changes = spark_session.readStream.format("blockstore").load(moved.url)
    (block,) = [one for one in blocks("docs/guides/spark.md") if one.text.startswith("def merge")]
    for name in ("first", "second"):
        before = {"id": [1], "name": ["Ada"], "seen": [1]}
        bs.open(table.url).upsert(pa.table(before, schema))
        text = block.text.replace("s3://lake/customers", table.url)
        text = text.replace("/mnt/checkpoints", f"{tmp_path}/{name}")
        exec(text, {"bs": bs, "bs_spark": bs_spark, "changes": changes})
        for query in spark_session.streams.active:
            query.processAllAvailable()
            query.stop()
        assert seen(table) == [(1, "Ada", 5), (7, "New", 5)]
    jobs = [entry.job for entry in bs.open(table.url).history() if entry.job is not None]
    assert [job.batch for job in jobs] == [0, 0]
    assert len({job.app for job in jobs}) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM {t}", "SELECT, expected MERGE"),
        ("-- all of it\nTRUNCATE TABLE {t}", "TRUNCATE, expected MERGE"),
        ("DROP TABLE {t}", "DROP, expected .* blockstore.sql.url, …., which needs no Spark"),
        ("CALL tag(1)", "CALL, expected .* needs no Spark"),
        ("DELETE FROM {t}; DELETE FROM {t}", "2 statements"),
        ("", "0 statements"),
        ("UPDATE {t} SET n = = 3", "line 1, column"),
        ("DELETE FROM elsewhere.t", "changes elsewhere.t, which is not the name of a table here"),
        ("INSERT INTO {t} SELECT 1L, 'a', 2L", "has a key"),
        ("INSERT OVERWRITE {t} SELECT 1L, 'a', 2L", "spark.overwrite"),
        ("UPDATE {t} SET id = 3", "part of the key"),
        ("UPDATE {t} SET n = 3 FROM u", "MERGE"),
        (MERGE + "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "no source row"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (1)", "other columns than it has"),
    ],
)  # fmt: skip
def test_what_it_does_not_carry_out_is_refused_in_a_sentence(
    spark_session: SparkSession, table: bs.Table, text: str, said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        bs_spark.sql(spark_session, text.format(t=f"blockstore.`{table.url}`"))
    assert bs.open(table.url).snapshot().version == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("DELETE FROM {t} LIMIT 1", "the DELETE has LIMIT, .* rows with WHERE"),
        ("DELETE FROM {t} ORDER BY id LIMIT 1", "has (LIMIT|ORDER BY), .* rows with WHERE"),
        ("DELETE FROM {t} TABLESAMPLE (1 ROWS)", "changed table has TABLESAMPLE"),
        ("DELETE FROM {t} VERSION AS OF 1", "changed table has VERSION .*newest version"),
        ("DELETE FROM {t} TIMESTAMP AS OF '2024-01-01'", "changed table has"),
        ("DELETE FROM {t} WHERE id = 1 RETURNING id", "the DELETE has RETURNING"),
        ("DELETE {t} WHERE id = 1", "DELETE without FROM.*write DELETE FROM"),
        ("DELETE FROM other.{t} WHERE id = 1", "changed table has CATALOG"),
        ("DELETE FROM {t} AS t(a, b, c)", "list of columns after the name"),
        ("DELETE FROM {t} USING u", "the DELETE has USING.*MERGE"),
        ("UPDATE {t} SET n = 0 LIMIT 1", "the UPDATE has LIMIT"),
        ("UPDATE {t} SET n = 0 ORDER BY id LIMIT 1", "the UPDATE has"),
        ("UPDATE {t} SET *", "an UPDATE has none"),
        ("UPDATE {t} SET *, n = 1", "an UPDATE has none"),
        ("UPDATE {t} SET s.n = 99", "s.n is set, which is not a column of the changed table"),
        ("UPDATE {t} AS u SET target.n = 99", "target.n is set"),
        ("UPDATE {t} SET n[0] = 1", "is set, which is not a column"),
        ("UPDATE {t} SET n = 1, n = 2", "'n' is set twice"),
        ("UPDATE {t} SET n = DEFAULT", "DEFAULT as a value"),
        ("WITH s AS (SELECT 1) DELETE FROM {t} WHERE id IN (SELECT * FROM s)", "DELETE has WITH"),
        ("WITH s AS (SELECT 1) UPDATE {t} SET n = 1", "UPDATE has WITH"),
        ("WITH s AS (SELECT 1L id) " + MERGE + "WHEN MATCHED THEN DELETE", "USING .WITH"),
        ("WITH x AS (SELECT 1) INSERT INTO {t} SELECT * FROM x", "INSERT INTO t WITH"),
        ("INSERT INTO {t} REPLACE WHERE id = 1 SELECT 1L, 'a', 2L", "REPLACE WHERE.*overwrite"),
        ("INSERT INTO {t} PARTITION (id = 1) SELECT 'a', 2L", "has PARTITION"),
        ("INSERT INTO {t} SELECT 1L, 'a', 2L ON CONFLICT DO NOTHING", "ON CONFLICT.*MERGE"),
        ("INSERT INTO {t} SELECT 1L, 'a', 2L RETURNING id", "has RETURNING"),
        ("INSERT INTO {t} DEFAULT VALUES", "has DEFAULT"),
        ("MERGE INTO {t} t USING {t} VERSION AS OF 2 AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
         "the source has VERSION.*write a query"),
        ("MERGE INTO {t} t USING {t} s TABLESAMPLE (1 ROWS) ON true WHEN MATCHED THEN DELETE",
         "TABLESAMPLE"),
        ("MERGE INTO {t} t USING range(3) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
         "write a query in parentheses"),
        ("MERGE INTO {t} t USING {t} s USING (id) WHEN MATCHED THEN DELETE", "write ON"),
        ("MERGE INTO {t} t USING (SELECT 1L a) s(x, y) ON t.id = s.x WHEN MATCHED THEN DELETE",
         "1 columns, and its alias names 2"),
        (MERGE + "WHEN MATCHED THEN UPDATE SET n = 1 WHERE t.n = 2", "UPDATE of a merge has WHERE"),
        (MERGE + "WHEN MATCHED THEN UPDATE SET * EXCEPT (n)", "the merge has . EXCEPT"),
        (MERGE + "WHEN MATCHED THEN UPDATE SET *, n = 1", "all columns, so nothing else"),
        (MERGE + "WHEN MATCHED THEN UPDATE SET s.n = 1", "s.n is set"),
        (MERGE + "WHEN MATCHED THEN UPDATE SET n = 1, t.n = 2", "set twice"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT (id, s.n) VALUES (1, 2)", "s.n is set"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (1, DEFAULT)", "DEFAULT as a value"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT VALUES (1, 2, 3)", "other columns than it has"),
    ],
)  # fmt: skip
def test_a_part_that_is_not_carried_out_is_refused(
    spark_session: SparkSession, table: bs.Table, text: str, said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        bs_spark.sql(spark_session, text.format(t=f"blockstore.`{table.url}`"))
    assert bs.open(table.url).snapshot().version == 2


def test_expressions_go_to_spark_as_they_are_written(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.time64("us")), ("end", pa.bool_())])
    table = bs.create(f"{tmp_path}/times", schema=schema, key="id")
    table.upsert(pa.table({"id": [1, 2], "at": [None, None], "end": [False, True]}, schema))
    named = f"blockstore.`{table.url}`"
    bs_spark.sql(
        spark_session,
        f"UPDATE {named} AS t SET at = time'12:30:00', end = id = (1) -- and nothing else\n"
        "WHERE CASE WHEN t.end THEN FALSE ELSE TRUE END;",
    )
    bs_spark.sql(
        spark_session,
        f"MERGE INTO {named} AS t USING (VALUES (2L, time'01:00:00'), (9L, NULL)) AS s(id, of) "
        "ON t.id = s.id AND CASE WHEN t.end THEN TRUE END "
        "WHEN MATCHED AND s.of BETWEEN time'00:00:00' AND time'02:00:00' "
        "THEN UPDATE SET at = s.of, t.end = CASE s.id WHEN 2 THEN false END "
        "WHEN NOT MATCHED THEN INSERT (id, end) VALUES (s.id, coalesce(s.of IS NULL, false))",
    )
    half, one = dt.time(12, 30), dt.time(1)
    assert seen(table) == [(1, half, True), (2, one, False), (9, None, True)]


def test_the_columns_of_a_source_have_the_names_of_its_alias(
    spark_session: SparkSession, table: bs.Table
) -> None:
    named = f"blockstore.`{table.url}`"
    for query in ("SELECT 1L x, 'q' y, 2L z", "WITH w AS (SELECT 3L, 'r', 4L) SELECT * FROM w"):
        bs_spark.sql(
            spark_session,
            f"MERGE INTO {named} t USING ({query}) AS s(id, name, n) ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET *",
        )
    assert seen(table) == [(1, "q", 2), (2, "b", 20), (3, "r", 4)]


def test_an_insert_takes_each_form_of_query(spark_session: SparkSession, tmp_path: Path) -> None:
    table = bs.create(f"{tmp_path}/ids", schema=BY_KEY, row_ids=True)
    spark_session.sql("SELECT 1L id, 'a' name, 5L n").createOrReplaceTempView("one_row")
    for text in (
        "INTO {t} TABLE one_row",
        "INTO TABLE {t} FROM one_row SELECT id + 1, name, n",
        "INTO {t} BY NAME SELECT n, 3L AS id FROM one_row",
        "INTO {t} AS x (n, id) WITH w AS (SELECT 7L, 4L) SELECT * FROM w",
        "INTO {t} (SELECT 5L, 'e', 0L)",
    ):
        bs_spark.sql(spark_session, "INSERT " + text.format(t=f"blockstore.`{table.url}`"))
    assert seen(table) == [(1, "a", 5), (2, "a", 5), (3, None, 5), (4, None, 7), (5, "e", 0)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(ID, Name) VALUES (1L, 'x')", "names 'ID', .* case counts, so write 'ID' as 'id'"),
        ("BY NAME SELECT 1L AS Id", "case counts, so write 'Id' as 'id'"),
        ("(id, nmae) VALUES (1L, 'x')", "'nmae', which .*its columns are id, name, n"),
        ("(id, id) VALUES (1L, 2L)", "'id' twice"),
        ("BY NAME SELECT 1L AS id, 2L AS id", "'id' twice"),
        ("(id, name.x) VALUES (1L, 'x')", "lists name.x, which is not a column"),
        ("(id, name) BY NAME SELECT 1L AS id", "."),
    ],
)
def test_an_insert_names_columns_of_the_table(
    spark_session: SparkSession, tmp_path: Path, text: str, said: str
) -> None:
    table = bs.create(f"{tmp_path}/ids", schema=BY_KEY, row_ids=True)
    with pytest.raises(Invalid, match=said):
        bs_spark.sql(spark_session, f"INSERT INTO blockstore.`{table.url}` {text}")
    assert seen(table) == []


def test_an_insert_of_literals(spark_session: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("small", pa.int16()),
            ("f", pa.float32()),
            ("d", pa.float64()),
            ("money", pa.decimal128(10, 2)),
            ("local", pa.timestamp("us")),
            ("list", pa.list_(pa.int64())),
            ("text", pa.string()),
        ]
    )
    table = bs.create(f"{tmp_path}/ids", schema=schema, row_ids=True)
    for values in (
        "5, 1, 1.5, 1.5, timestamp'2024-01-02 03:04:05', array(), NULL",
        "NULL, 0.1, 2, 3, NULL, array(NULL), 'x'",
        "7L, 0.5D, double('nan'), 2.25D, timestamp_ntz'2024-01-01 00:00:00', array(1L), 'y'",
    ):
        bs_spark.sql(spark_session, f"INSERT INTO blockstore.`{table.url}` VALUES ({values})")
    rows = bs.open(table.url).snapshot().scan().to_table().to_pylist()
    found = sorted((tuple(row.values()) for row in rows), key=lambda row: str(row[-1]))
    nan = found[2][2]
    assert nan != nan
    moment = dt.datetime(2024, 1, 2, 3, 4, 5)
    assert found == [
        (5, 1.0, 1.5, Decimal("1.50"), moment, [], None),
        (None, pytest.approx(0.1), 2.0, Decimal("3.00"), None, [None], "x"),
        (7, 0.5, nan, Decimal("2.25"), dt.datetime(2024, 1, 1), [1], "y"),
    ]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("70000, 1.0", "'small' do not fit int16"),
        ("1.5, 1.0", "'small' do not fit int16"),
        ("1, 16777217", "'f'"),
        ("1, 0.1D", "'f' has the type float, which does not have all numbers .* as double"),
        ("'x', 1.0", "small"),
        ("1, DEFAULT", "DEFAULT as a value"),
    ],
)
def test_an_insert_loses_nothing(
    spark_session: SparkSession, tmp_path: Path, values: str, said: str
) -> None:
    schema = pa.schema([("small", pa.int16()), ("f", pa.float32())])
    table = bs.create(f"{tmp_path}/ids", schema=schema)
    with pytest.raises(Exception, match=rf"Invalid.*{said}|{said}"):
        bs_spark.sql(spark_session, f"INSERT INTO blockstore.`{table.url}` VALUES ({values})")
    assert seen(table) == []
