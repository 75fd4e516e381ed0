"""Statements on tables whose rows have several sets of labels: a label is a column of text, a row
keeps its labels, and a new row says its own. A DuckDB table with a plain column is the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.care.verify import verify
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.operations.append import earlier_block
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.door import opened
from blockstore.world import World
from tests.reader.statements.logic import KINDS, sorted_rows

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
OF_ALL = [
    "UPDATE t SET v = v + 10 WHERE k = 2",
    "UPDATE t SET v = 0 WHERE site = 'a' AND k < 3",
    "UPDATE t SET v = length(site) WHERE site IS NOT NULL",
    (
        "UPDATE t SET v = s.v FROM (SELECT * FROM t WHERE site = 'a') AS s WHERE t.k = s.k AND"
        " t.site = 'b'"
    ),
    "DELETE FROM t WHERE site = 'b'",
    "DELETE FROM t WHERE site IS NULL OR k = 1",
    (
        "DELETE FROM t USING (VALUES (2, 'a'), (3, NULL)) AS s(k, site) WHERE t.k = s.k AND t.site"
        " IS NOT DISTINCT FROM s.site"
    ),
    "INSERT INTO t (site, k, v) VALUES ('c', 50, 1), (NULL, 51, 2), ('a', 52, 3)",
    "INSERT INTO t (k, site) VALUES (53, 'a')",
    "INSERT INTO t (k, v) VALUES (54, 1)",
    "INSERT INTO t SELECT k + 100, v, site FROM t",
    "INSERT INTO t SELECT * REPLACE (k + 1000 AS k) FROM t WHERE site = 'a'",
    "INSERT INTO t VALUES (55, 1, 'z'), (56, 2, NULL)",
    "INSERT INTO t BY NAME SELECT 'b' AS site, 57 AS k",
    (
        "MERGE INTO t USING (VALUES (1, 100, 'a'), (2, 9, 'b'), (9, 9, 'd')) AS s(k, v, site) "
        "ON t.k = s.k AND t.site = s.site WHEN MATCHED AND s.k = 1 THEN DELETE WHEN MATCHED THEN "
        "UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT"
    ),
    (
        "MERGE INTO t USING (VALUES (2, 9, 'b'), (9, 9, 'd')) AS s(k, v, site) USING (k, site) "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k, v, site) VALUES "
        "(s.k, s.v, s.site) WHEN NOT MATCHED BY SOURCE AND site = 'a' THEN UPDATE SET v = -1"
    ),
    (
        "MERGE INTO t USING (VALUES (2, 9)) AS s(k, v) ON t.k = s.k AND site = 'a' "
        "WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED BY SOURCE AND site = 'b' THEN "
        "DELETE"
    ),
    "TRUNCATE t",
]
OF_KEY = [
    "INSERT INTO t VALUES (1, 9, 'a'), (1, 8, 'c') ON CONFLICT DO NOTHING",
    (
        "INSERT INTO t VALUES (1, 9, 'a'), (1, 8, NULL), (3, 7, NULL) ON CONFLICT DO UPDATE SET v ="
        " excluded.v + t.v"
    ),
    (
        "INSERT INTO t (k, v, site) VALUES (2, 9, 'b') ON CONFLICT (k, site) DO UPDATE SET v = 70"
        " WHERE excluded.site = 'b'"
    ),
    "INSERT OR REPLACE INTO t VALUES (2, 9, 'b'), (77, 9, 'b')",
]


def made(folder: Path, kind: str) -> bs.Table:
    """A table of rows with the labels ``site=a`` and ``site=b``, and of rows without one."""
    identity: dict[str, Any] = {"key": {"key": ["k"]}, "ids": {"row_ids": True}}.get(kind, {})
    table = bs.create(f"{folder}/lake/t", schema=SCHEMA, **identity)
    write = table.upsert if kind == "key" else table.append
    for labels, keys in (({"site": "a"}, [1, 2, 3]), ({"site": "b"}, [2, 3, 4]), ({}, [3, 5])):
        write(pa.table({"k": keys, "v": [k * 10 for k in keys]}, SCHEMA), labels=labels)
    return table


def model(kind: str) -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    # A key of DuckDB's has no nulls; a label can be missing.
    unique = ", UNIQUE (k, site)" if kind == "key" else ""
    found.execute(f"CREATE TABLE t (k BIGINT, v BIGINT, site VARCHAR{unique})")
    found.execute("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'a'), (3, 30, 'a'), (2, 20, 'b')")
    found.execute("INSERT INTO t VALUES (3, 30, 'b'), (4, 40, 'b'), (3, 30, NULL), (5, 50, NULL)")
    return found


def rows_of(table: bs.Table) -> list[dict[str, Any]]:
    found = table.snapshot().scan().to_table()
    if "site" not in found.schema.names:
        found = found.append_column("site", pa.nulls(len(found), pa.string()))
    return sorted_rows(found.select(["k", "v", "site"]))


@pytest.mark.parametrize("kind", KINDS)
def test_statements_do_what_they_do_where_labels_are_columns(kind: str, tmp_path: Path) -> None:
    table, duck = made(tmp_path, kind), model(kind)
    sqls = [*(OF_KEY if kind == "key" else []), *OF_ALL]
    with opened(f"{tmp_path}/lake") as session:
        for number, sql in enumerate(sqls):
            before = table.poll()
            (text,) = session.parse(sql)
            done = session.run(text, Doing())
            # Two rows without a label can be the same row here; nulls of DuckDB never are.
            duck.execute("UPDATE t SET site = '-' WHERE site IS NULL AND $1", [sql in OF_KEY])
            own = sql.replace("NULL", "'-'") if sql in OF_KEY else sql
            (counted,) = duck.execute(own).fetchall()
            duck.execute("UPDATE t SET site = NULL WHERE site = '-'")
            theirs = sorted_rows(duck.table("t").to_arrow_table())
            assert rows_of(table) == theirs, sql
            counts = done.counts
            assert sum(counts.values()) - counts.get("unchanged", 0) == counted[0], sql
            assert table.poll() == before + 1, sql
            if number % 4 == 3:
                compact_once(table, Settings(tier_blocks=2, work_dir=tmp_path))
                assert rows_of(table) == theirs, sql
    assert rows_of(table) == []
    assert not verify(table.bucket, World.real(), deep=True).findings


@pytest.mark.parametrize("kind", KINDS)
def test_a_transaction_follows_the_labels(kind: str, tmp_path: Path) -> None:
    table, duck = made(tmp_path, kind), model(kind)
    before = table.poll()
    sqls = [
        "UPDATE t SET v = v + 1 WHERE site = 'a'",
        "INSERT INTO t VALUES (60, 6, 'new'), (61, 6, NULL)",
        "UPDATE t SET v = v * 2 WHERE site = 'new' OR k = 3",
        "DELETE FROM t WHERE site = 'b' AND k > 2",
        "DELETE FROM t WHERE k = 61",
    ]
    bs.sql(f"{tmp_path}/lake", ";".join(["BEGIN", *sqls, "COMMIT"]))
    for sql in sqls:
        duck.execute(sql)
    assert table.poll() == before + 1
    assert rows_of(table) == sorted_rows(duck.table("t").to_arrow_table())
    assert not verify(table.bucket, World.real(), deep=True).findings


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_is_returned_shows_its_labels(kind: str, tmp_path: Path) -> None:
    made(tmp_path, kind)
    lake = f"{tmp_path}/lake"
    for sql, expected in (
        ("UPDATE t SET v = 0 WHERE k = 3 RETURNING *", [(3, 0, "a"), (3, 0, "b"), (3, 0, None)]),
        ("DELETE FROM t WHERE site = 'b' RETURNING site, k", [("b", 2), ("b", 3), ("b", 4)]),
        ("INSERT INTO t (k, site) VALUES (8, 'c'), (9, NULL) RETURNING *",
         [(8, None, "c"), (9, None, None)]),
        ("INSERT INTO t (k, v) VALUES (10, 1) RETURNING *", [(10, 1, None)]),
        ("INSERT INTO t VALUES (11, 1) RETURNING k, site", [(11, None)]),
    ):  # fmt: skip
        found = bs.sql(lake, sql).to_arrow().to_pylist()
        assert sorted((tuple(row.values()) for row in found), key=repr) == sorted(
            expected, key=repr
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("UPDATE t SET site = 'c'", "site, which is a label, and labels of a row never change"),
        (
            (
                "MERGE INTO t USING (VALUES (1, 'x')) AS s(k, site) ON t.k = s.k WHEN MATCHED THEN"
                " UPDATE SET site = s.site"
            ),
            "another site, which is a label",
        ),
        ("INSERT INTO t VALUES (1)", "1 values are given for 3 columns of table t"),
        ("INSERT INTO t (k, place) VALUES (1, 'a')", "no column place .* k, v, site"),
        (f"INSERT INTO t (k, site) VALUES (70, '{'x' * 1_001}')", "label 'site'"),
    ],
)
def test_what_labels_cannot_do_is_said_and_changes_nothing(
    kind: str, sql: str, said: str, tmp_path: Path
) -> None:
    table = made(tmp_path, kind)
    before = table.poll(), rows_of(table)
    with pytest.raises(bs.Invalid, match=said):
        bs.sql(f"{tmp_path}/lake", sql)
    assert (table.poll(), rows_of(table)) == before


@pytest.mark.parametrize("kind", KINDS)
def test_new_rows_have_the_labels_of_the_table(kind: str, tmp_path: Path) -> None:
    keyed = {"key": " PRIMARY KEY", "ids": "", "plain": ""}[kind]
    ids = ", row_ids = true" if kind == "ids" else ""
    lake = str(tmp_path)
    bs.sql(lake, f"CREATE TABLE t (k BIGINT{keyed}, v BIGINT) WITH (labels = 'site=home'{ids})")
    bs.sql(lake, "INSERT INTO t VALUES (1, 1)")
    bs.sql(lake, "INSERT INTO t VALUES (2, 2, 'away'), (3, 3, DEFAULT), (4, 4, NULL)")
    bs.sql(
        lake,
        "MERGE INTO t USING (VALUES (1, 5), (6, 6)) AS s(k, v) ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.v)",
    )
    found = bs.sql(lake, "SELECT * FROM t ORDER BY k").to_arrow().to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (1, 5, "home"),
        (2, 2, "away"),
        (3, 3, "home"),
        (4, 4, None),
        (6, 6, "home"),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_several_labels_are_inserted_once_by_a_job(kind: str, tmp_path: Path) -> None:
    table, job = made(tmp_path, kind), bs.Job("nightly", 1)
    sql = "INSERT INTO t VALUES (70, 1, 'a'), (71, 2, 'b'), (72, 3, 'c'), (73, 4, NULL)"
    for already in (False, True):
        done = bs.sql(f"{tmp_path}/lake", sql, job=job)
        assert done.already is already
        assert len(rows_of(table)) == 12
    table.poll()
    before = earlier_block(table.log.state, job)
    assert before is not None
    assert before.rows == 4


def test_a_table_without_an_index_takes_rows_with_its_own_labels_only(tmp_path: Path) -> None:
    bare = bs.create(f"{tmp_path}/lake/t", schema=SCHEMA, index=False)
    bare.append(pa.table({"k": [1], "v": [1]}, SCHEMA), labels={"site": "a"})
    lake = f"{tmp_path}/lake"
    assert bs.sql(lake, "INSERT INTO t VALUES (2, 2)").inserted == 1
    with pytest.raises(bs.Invalid, match="no index"):
        bs.sql(lake, "INSERT INTO t (k, site) VALUES (3, 'b')")
