"""Statements that carry a job and do not change rows: each happens once, whatever happened to the
table since."""

from __future__ import annotations

from pathlib import Path

import pytest

import blockstore as bs

JOB = bs.Job("nightly", 7)
FORMS = {"plain": "", "key": " PRIMARY KEY", "ids": ""}

DEFINES = {
    "create": "CREATE TABLE made (n INTEGER)",
    "create_as": "CREATE TABLE made AS SELECT n FROM t",
    "create_as_nothing": "CREATE TABLE made AS SELECT n FROM t WHERE false",
    "replace": "CREATE OR REPLACE TABLE t (n INTEGER, m INTEGER)",
    "replace_as": "CREATE OR REPLACE TABLE t AS SELECT n, n AS m FROM t",
    "add": "ALTER TABLE t ADD COLUMN m INTEGER",
    "set": "ALTER TABLE t SET (retention = '90d')",
    "drop": "DROP TABLE t",
    "drop_if": "DROP TABLE IF EXISTS t",
}
CALLS = {
    "tag": "CALL tag('t', 'kept')",
    "untag": "CALL untag('t', 'first')",
    "restore": "CALL restore('t', 3)",
    "restore_tag": "CALL restore('t', 'first')",
    "revert": "CALL revert('t', {write})",
}
SINCE = {
    "create": "INSERT INTO made VALUES (9)",
    "create_as": "DELETE FROM made WHERE n = 1",
    "create_as_nothing": "INSERT INTO made VALUES (9)",
    "replace": "INSERT INTO t VALUES (9, 9)",
    "replace_as": "INSERT INTO t VALUES (9, 9)",
    "add": "ALTER TABLE t DROP COLUMN m",
    "set": "ALTER TABLE t SET (retention = '30d')",
    "drop": "UNDROP t",
    "drop_if": "UNDROP t",
    "undrop": "INSERT INTO t VALUES (9)",
    "tag": "INSERT INTO t VALUES (9)",
    "untag": "CALL tag('t', 'first', 3)",
    "restore": "INSERT INTO t VALUES (9); DELETE FROM t WHERE n = 1",
    "restore_tag": "CALL untag('t', 'first'); DELETE FROM t WHERE n = 1",
    "revert": "DELETE FROM t WHERE n = 1",
}
"""What others do after each, by its name."""


def make(lake: Path, form: str) -> str:
    options = " WITH (row_ids = true)" if form == "ids" else ""
    bs.sql(str(lake), f"CREATE TABLE t (n INTEGER{FORMS[form]}){options}")
    for number in (1, 2, 3):
        bs.sql(str(lake), f"INSERT INTO t VALUES ({number})")
    bs.sql(str(lake), "CALL tag('t', 'first', 3)")
    return str(lake)


def contents(lake: str) -> dict[str, tuple[int, dict[str, int], dict[str, object], list[object]]]:
    """Of each table: its version, tags, properties and rows."""
    found = {}
    for name in ("made", "t"):
        try:
            table = bs.open(f"{lake}/{name}")
        except bs.NotFound:
            continue
        state = table.log.state
        rows = table.snapshot().scan().to_table().to_pylist()
        found[name] = (
            state.version,
            dict(state.tags),
            {"retention": table.definition.properties.retention_s},
            sorted(rows, key=repr),
        )
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [*DEFINES, "undrop", *CALLS])
def test_it_happens_once(tmp_path: Path, name: str, form: str) -> None:
    lake = make(tmp_path, form)
    sql = {**DEFINES, "undrop": "UNDROP t", **CALLS}[name]
    if name == "undrop":
        bs.sql(lake, "DROP TABLE t")
    if "{write}" in sql:
        versions = list(bs.open(f"{lake}/t").log.entries(3, 3))
        sql = sql.format(write=f"'{versions[0].add[0].meta.ulid}'")
    before = contents(lake)
    first = bs.sql(lake, sql, job=JOB)
    assert not first.already
    assert first.version is not None
    assert contents(lake) != before
    bs.sql(lake, SINCE[name])
    after = contents(lake)
    again = bs.sql(lake, sql, job=JOB)
    assert contents(lake) == after
    assert again.already
    assert (again.statement, again.version) == (first.statement, first.version)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_batch_is_another_statement_on_another_table(tmp_path: Path, form: str) -> None:
    lake = make(tmp_path, form)
    bs.sql(lake, "CREATE TABLE made (n INTEGER)", job=JOB)
    assert not bs.sql(lake, "CALL tag('t', 'x')", job=JOB).already
    assert bs.open(f"{lake}/t").log.state.tags == {"first": 3, "x": 5}


@pytest.mark.parametrize("form", FORMS)
def test_an_operation_of_the_table_happens_once_too(tmp_path: Path, form: str) -> None:
    lake = make(tmp_path, form)
    table, other = bs.open(f"{lake}/t"), bs.open(f"{lake}/t")
    ulid = next(iter(table.log.entries(3, 3))).add[0].meta.ulid
    assert table.tag("a", job=bs.Job("ops", 0)) == 5
    bs.sql(lake, "INSERT INTO t VALUES (8)")
    assert other.tag("a", job=bs.Job("ops", 0)) == 5
    did = table.revert(ulid, job=bs.Job("ops", 1))
    bs.sql(lake, "INSERT INTO t VALUES (2)")
    again = other.revert(ulid, job=bs.Job("ops", 1))
    assert (again.version, again.repeated) == (did.version, True)
    back = table.restore(version=3, job=bs.Job("ops", 2))
    bs.sql(lake, "DELETE FROM t WHERE n = 1")
    again_back = other.restore(version=3, job=bs.Job("ops", 2))
    assert (again_back.version, again_back.repeated, again_back.nothing) == (
        back.version,
        True,
        False,
    )
    table.untag("first", job=bs.Job("ops", 3))
    table.tag("first", version=4)
    other.untag("first", job=bs.Job("ops", 3))
    state = bs.open(f"{lake}/t").log.state
    assert state.tags == {"a": 5, "first": 4}
    found = bs.sql(lake, "SELECT n FROM t ORDER BY n").to_arrow()["n"].to_pylist()
    assert 1 not in found
