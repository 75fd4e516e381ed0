"""``t.history`` and the other relations of a table, read by SQL: what they show, at which version,
by constants only, and of tables that the caller may see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.errors import BlockstoreError
from blockstore.reader.query import Capacity, Engine
from blockstore.reader.query import relations as module
from blockstore.reader.tables import At, Tables
from blockstore.world import World

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.int64())])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    table = bs.create(
        f"{folder}/t?durable=false",
        schema=SCHEMA,
        key="k",
        properties={"row_history": "forever"},
    )
    table.upsert(pa.table({"k": [1, 2], "a": [10, 20]}, SCHEMA), message="first")
    table.update({"a": 11}, where="k = 1")
    table.tag("x", version=2)
    bare = bs.create(f"{folder}/bare?durable=false", schema=SCHEMA, index=False)
    bare.append(pa.table({"k": [1], "a": [1]}, SCHEMA))
    return folder


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    tables = Tables([str(folder)], world=World.real())
    with Engine(tables, capacity=Capacity(memory_bytes=1 << 30, spill_bytes=1 << 20)) as opened:
        yield opened


def rows(engine: Engine, sql: str) -> list[tuple[object, ...]]:
    found = engine.query(sql).read_all()
    return [tuple(row.values()) for row in found.to_pylist()]


def test_each_relation_shows_what_the_table_has(engine: Engine) -> None:
    history = rows(engine, "SELECT version, operation, rows_added, message FROM t.history")
    assert sorted(history, key=repr) == [
        (1, "create", 0, ""),
        (2, "upsert", 2, "first"),
        (3, "update", 1, ""),
        (4, "tag", 0, ""),
    ]
    assert rows(engine, "SELECT * FROM t.tags") == [("x", 2)]
    blocks = rows(engine, "SELECT version, kind, level, rows FROM t.blocks ORDER BY version")
    assert blocks == [(2, "changes", 1, 2), (3, "changes", 1, 1)]
    versions = rows(engine, "SELECT _version, a FROM t.rows_history(1) ORDER BY _version")
    assert versions == [(2, 10), (3, 11)]
    changes = "SELECT _version, _change, k, a FROM t.changes(after => 1, until => 3) ORDER BY ALL"
    assert rows(engine, changes) == [
        (2, "insert", 1, 10),
        (2, "insert", 2, 20),
        (3, "update", 1, 11),
    ]
    assert rows(engine, "SELECT count(*) FROM T.CHANGES(2)") == [(1,)]


def test_they_are_read_like_any_table(engine: Engine) -> None:
    joined = "SELECT a, operation FROM t JOIN t.history h ON h.version = t.k + 1 ORDER BY a"
    assert rows(engine, joined) == [(11, "upsert"), (20, "update")]
    assert rows(engine, "SELECT history.version FROM t.history WHERE version = 3") == [(3,)]
    assert rows(engine, "SELECT count(*) AS n FROM t.history") == [(4,)]
    both = "WITH history AS (SELECT 7 AS z) SELECT z, tag FROM history, t.tags"
    assert rows(engine, both) == [(7, "x")]
    twice = "SELECT count(*) FROM t.history AS x(v) JOIN t.history AS y(v) ON x.v = y.v"
    assert rows(engine, twice) == [(4,)]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM t.history(1)", "not read so"),
        ("SELECT * FROM t.tags AT (VERSION => 2)", "not read so"),
        ("SELECT * FROM t.changes", "not read so"),
        ("SELECT * FROM t.changes(after => 1 + 1)", "not read so"),
        ("SELECT * FROM t.changes(before => 1)", "not read so"),
        ("SELECT * FROM t.changes('x')", "whole numbers"),
        ("SELECT * FROM t.changes(after => (SELECT 1))", "not read so"),
        ("SELECT * FROM t.rows_history()", "not read so"),
        ("SELECT * FROM t.rows_history(99)", "99"),
        ("SELECT * FROM t.nothing", "named without a schema"),
        ("SELECT * FROM t.read_text('/etc/passwd')", "not allowed"),
        ("SELECT * FROM hidden.history", "no table"),
        ("SELECT * FROM x.t.history", "named without a schema"),
        ('SELECT * FROM "blockstore:history:0"', "no table"),
        ('SELECT * FROM t.history, "blockstore:history:0"', "no table"),
        ('WITH "blockstore:history:0" AS (SELECT 1) SELECT * FROM t.history', "named"),
        ("SELECT * FROM bare.history", "no index"),
    ],
)
def test_other_forms_are_refused(engine: Engine, sql: str, said: str) -> None:
    with pytest.raises(BlockstoreError, match=said):
        rows(engine, sql)


def test_a_table_that_the_caller_may_not_see_has_no_relations(engine: Engine) -> None:
    for kind in ("history", "blocks", "tags", "rows_history(1)", "changes(0)"):
        with pytest.raises(BlockstoreError, match="no table"):
            engine.run(f"SELECT * FROM t.{kind}", allowed=["bare"])


def test_a_table_without_an_index_shows_its_blocks(engine: Engine) -> None:
    assert rows(engine, "SELECT version, rows FROM bare.blocks") in ([(None, 1)], [])


def test_changes_beyond_what_memory_holds_are_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 10)
    with pytest.raises(bs.Invalid, match="name fewer versions"):
        rows(engine, "SELECT * FROM t.changes(0)")


def test_versions_are_given_for_the_tables_that_a_query_names_and_not_for_its_relations(
    engine: Engine,
) -> None:
    sql = "SELECT a, (SELECT count(*) FROM bare.blocks) AS blocks FROM t WHERE k = 1"
    with engine.run(sql, at={"t": At(version=2)}) as answer:
        assert answer.reader.read_all().to_pylist() == [{"a": 10, "blocks": 0}]
