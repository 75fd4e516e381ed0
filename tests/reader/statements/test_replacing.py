"""CREATE OR REPLACE by ``blockstore.sql``: the table of the name, in its place, or nothing; and
jobs that are repeated after a table was replaced."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import blockstore as bs
from blockstore.reader.statements import lake as lakes
from blockstore.reader.statements import session as sessions
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.door import opened

JOB, OTHER = bs.Job("nightly", 1), bs.Job("other", 1)


def rows(lake: str, table: str = "t") -> list[object]:
    found = bs.sql(lake, f"SELECT n FROM {table} ORDER BY n").to_arrow()
    return list(found["n"].to_pylist())


@pytest.fixture
def lake(tmp_path: Path) -> str:
    url = str(tmp_path / "lake")
    (tmp_path / "lake").mkdir()
    bs.sql(url, "CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1), (2)")
    return url


@pytest.mark.parametrize("sql", ["AS SELECT 9 AS n", "(n INTEGER)"])
def test_a_table_is_replaced_where_it_is(lake: str, tmp_path: Path, sql: str) -> None:
    """By its own URL, in another spelling, and in the second of two lakes."""
    left = [9] if sql.startswith("AS") else []
    bs.sql(f"{lake}/t", f"CREATE OR REPLACE TABLE t {sql}")
    assert rows(lake) == left
    bs.sql(lake, "INSERT INTO t VALUES (3)")
    assert bs.sql(lake, f"CREATE OR REPLACE TABLE T {sql}").version
    assert rows(lake) == left
    assert [one.name for one in (tmp_path / "lake").iterdir()] == ["t"]
    bs.sql(str(tmp_path / "first"), "CREATE TABLE x (n INTEGER)")
    bs.sql([str(tmp_path / "first"), lake], f"CREATE OR REPLACE TABLE t {sql}")
    assert rows(lake) == left
    assert [one.name for one in (tmp_path / "first").iterdir()] == ["x"]


def test_a_dropped_table_does_not_stand_in_the_way_of_one_in_another_spelling(lake: str) -> None:
    bs.sql(lake, "DROP TABLE t")
    bs.sql(lake, "CREATE TABLE T AS SELECT 5 AS n")
    assert rows(lake, "T") == rows(lake) == [5]
    assert bs.sql(lake, "SELECT 1 AS one").to_arrow().to_pylist() == [{"one": 1}]


@pytest.mark.parametrize("name", ["jobs", "Index", " ", "a\nb", " t", "files"])
def test_a_name_that_is_none_of_a_table_is_refused(lake: str, name: str) -> None:
    for sql in ("CREATE TABLE", "CREATE OR REPLACE TABLE"):
        with pytest.raises(bs.Invalid, match="cannot be named"):
            bs.sql(lake, f'{sql} "{name}" (n INTEGER)')


def test_a_job_is_known_after_its_table_was_replaced(lake: str) -> None:
    first = bs.sql(lake, "CREATE OR REPLACE TABLE t AS SELECT 3 AS n", job=JOB)
    bs.sql(lake, "CREATE OR REPLACE TABLE t AS SELECT 4 AS n", job=OTHER)
    bs.sql(lake, "CREATE OR REPLACE TABLE t AS SELECT 5 AS n", job=bs.Job("nightly", 2))
    again = bs.sql(lake, "CREATE OR REPLACE TABLE t AS SELECT 3 AS n", job=JOB)
    assert (again.already, again.version) == (True, first.version)
    assert rows(lake) == [5]


def test_a_job_that_dropped_a_table_drops_no_later_one(lake: str) -> None:
    bs.sql(lake, "DROP TABLE t", job=JOB)
    bs.sql(lake, "CREATE TABLE t AS SELECT 6 AS n")
    assert bs.sql(lake, "DROP TABLE IF EXISTS t", job=JOB).already
    assert rows(lake) == [6]


@pytest.mark.parametrize("kind", ["", " PRIMARY KEY"])
@pytest.mark.parametrize(
    ("call", "since"),
    [
        ("restore('t', 2)", "INSERT INTO t VALUES (2), (3)"),
        ("tag('t', 'a', 2)", "CALL untag('t', 'a')"),
        ("untag('t', 'b')", "CALL tag('t', 'b')"),
        ("revert('t', '{write}')", "INSERT INTO t VALUES (7)"),
    ],
)
def test_a_job_that_found_nothing_to_do_does_nothing_later(
    tmp_path: Path, kind: str, call: str, since: str
) -> None:
    lake = str(tmp_path)
    bs.sql(lake, f"CREATE TABLE t (n INTEGER{kind}); INSERT INTO t VALUES (1)")
    write = next(iter(bs.open(f"{lake}/t").log.entries(2, 2))).add[0].meta.ulid
    if call.startswith("revert"):
        bs.sql(lake, f"CALL {call.format(write=write)}")
    if call.startswith("tag"):
        bs.sql(lake, f"CALL {call}")
    if call.startswith("untag"):
        with pytest.raises(bs.NotFound):
            bs.sql(lake, f"CALL {call}", job=JOB)
        return
    bs.sql(lake, f"CALL {call.format(write=write)}", job=JOB)
    bs.sql(lake, since)
    state = bs.open(f"{lake}/t").log.state
    assert bs.sql(lake, f"CALL {call.format(write=write)}", job=JOB).already
    assert bs.open(f"{lake}/t").log.state == state


@pytest.mark.parametrize("if_not", ["", " IF NOT EXISTS"])
def test_a_job_goes_on_with_the_table_that_it_made(
    lake: str, if_not: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process died between the table and the rows."""

    def dies(*_: object) -> None:
        raise bs.Indeterminate("the process died", commit="01JD0000000000000000000000")

    monkeypatch.setattr(sessions, "append_first", dies)
    sql = f"CREATE TABLE{if_not} made AS SELECT n FROM t"
    with pytest.raises(bs.Indeterminate):
        bs.sql(lake, sql, job=JOB)
    assert rows(lake, "made") == []
    monkeypatch.undo()
    assert bs.sql(lake, sql, job=JOB).inserted == 2
    assert rows(lake, "made") == [1, 2]
    assert bs.sql(lake, sql, job=JOB).already


def test_of_two_that_replace_a_table_one_does(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second does it between the table and the rows of the first: it is the newer one, and the
    first takes no table away but its own."""
    real = sessions.append_first
    second: list[object] = []

    def overtaken(table: bs.Table, *given: object) -> object:
        if not second:
            second.append(None)
            second.append(bs.sql(lake, "CREATE OR REPLACE TABLE t AS SELECT 8 AS n"))
        return real(table, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(sessions, "append_first", overtaken)
    with pytest.raises(bs.BlockstoreError):
        bs.sql(lake, "CREATE OR REPLACE TABLE t AS SELECT 7 AS n")
    assert rows(lake) == [8]


def test_nothing_interrupts_what_comes_after_the_drop(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C waits while the event is set."""
    real, commits = sessions.append_first, threading.Event()
    seen: list[bool] = []
    dropped: list[bool] = []
    drop = lakes.drop_table

    def drops(*given: Any, **more: Any) -> int:
        dropped.append(commits.is_set())
        return drop(*given, **more)

    monkeypatch.setattr(lakes, "drop_table", drops)

    def spied(*given: object) -> object:
        seen.append(commits.is_set())
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(sessions, "append_first", spied)
    with opened(lake) as session:
        for sql in (
            "CREATE OR REPLACE TABLE t AS SELECT 7 AS n",
            "CREATE TABLE u AS SELECT 1 AS n",
        ):
            (text,) = session.parse(sql)
            session.run(text, Doing(commits=commits))
            assert not commits.is_set()
        (text,) = session.parse("CREATE OR REPLACE TABLE t (n INTEGER)")
        session.run(text, Doing(commits=commits))
    assert seen == [True, False]
    assert dropped == [True, True], "with rows, and without"
    assert signal.getsignal(signal.SIGINT) is not None


def test_half_a_character_is_refused(lake: str) -> None:
    for sql in ("SELECT '\ud800' AS a", "CREATE TABLE u AS SELECT '\udfff' AS a"):
        with pytest.raises(bs.Invalid, match="lone surrogate"):
            bs.sql(lake, sql)


@pytest.mark.parametrize("number", ["\u00b2", "\u0663", "9" * 5000, "-1"])
def test_a_number_that_is_none_is_refused(lake: str, number: str) -> None:
    with pytest.raises(bs.Invalid):
        bs.sql(lake, f"CALL restore('t', {number})")
