"""Sessions that cancel and end one another by PostgreSQL's functions, as BI tools do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.reader.doors.three import Three, three
from tests.reader.http.gateways import ADMIN, OTHER, READ, WRITE, make_lake, settings
from tests.reader.postgres.raw import (
    SYNC,
    Raw,
    bind,
    describe,
    error_of,
    execute,
    parse,
    query,
    row_of,
    until,
)
from tests.reader.postgres.test_door import SLOW


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    folder = tmp_path_factory.mktemp("backends")
    with three(settings(make_lake(folder), folder), folder / "audit.jsonl") as made:
        yield made


@contextmanager
def slow(doors: Three, token: str, mark: str) -> Iterator[Raw]:
    """A session that runs a query without an end."""
    engine = doors.gateway.engine
    assert until(lambda: engine.running() == 0)
    with doors.raw(token) as made:
        made.send(query(f"{SLOW} /* {mark} */"))
        assert until(lambda: engine.running() == 1)
        yield made
    assert until(lambda: engine.running() == 0)


def test_a_session_knows_its_own_number(doors: Three) -> None:
    with doors.raw(READ) as one, doors.raw(READ) as other:
        for own in (one, other):
            assert own.rows("SELECT pg_backend_pid()") == [[str(own.key[0])]]
        assert one.key[0] != other.key[0]


def test_what_another_session_runs_is_cancelled_and_that_session_goes_on(doors: Three) -> None:
    with slow(doors, READ, "one-is-cancelled") as asking, doors.raw(READ) as other:
        assert other.rows(f"SELECT pg_cancel_backend({asking.key[0]})") == [["t"]]
        (error,) = [error_of(body) for kind, body in asking.until_ready() if kind == "E"]
        assert error["C"] == "57014"
        assert asking.rows("SELECT 1") == [["1"]]
    (line,) = doors.about("one-is-cancelled")
    assert line["outcome"] == "cancelled", line


def test_a_session_is_ended_and_its_query_with_it(doors: Three) -> None:
    with slow(doors, WRITE, "one-is-ended") as asking, doors.raw(WRITE) as other:
        number = asking.key[0]
        sql = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = '{number}'"
        assert other.rows(sql) == [["t"]]
        errors = [error_of(body)["C"] for kind, body in asking.until_ready() if kind == "E"]
        assert errors == ["57014"]
        kind, body = asking.next()
        assert (kind, error_of(body)["C"], error_of(body)["S"]) == ("E", "57P01", "FATAL")
        assert asking.ended()
        assert until(lambda: other.rows(sql) == [])
    assert doors.about("one-is-ended")[0]["outcome"] == "cancelled"


def test_an_idle_session_is_ended(doors: Three) -> None:
    with doors.raw(READ) as idle, doors.raw(READ) as other:
        assert other.rows(f"SELECT pg_catalog.pg_terminate_backend({idle.key[0]}) AS ended") == [
            ["t"]
        ]
        kind, body = idle.next()
        assert (kind, error_of(body)["C"]) == ("E", "57P01")
        assert idle.ended()


def test_sessions_of_others_are_as_none(doors: Three) -> None:
    with slow(doors, READ, "stays") as asking, doors.raw(OTHER) as other, doors.raw(ADMIN) as boss:
        number = asking.key[0]
        listed = "SELECT usename, state, query FROM pg_stat_activity WHERE pid = "
        for name in ("pg_cancel_backend", "pg_terminate_backend"):
            assert other.rows(f"SELECT {name}({number}), {name}(999999), {name}(NULL)") == [
                ["f", "f", None]
            ]
        assert other.rows(f"{listed}{number}") == []
        assert doors.gateway.engine.running() == 1
        ((user, state, text),) = boss.rows(f"{listed}{number}")
        assert (user, state) == ("tester", "active")
        assert text is not None
        assert "stays" in text
        assert boss.rows(f"SELECT pg_cancel_backend({number})") == [["t"]]


def test_a_statement_that_is_only_prepared_ends_nothing(doors: Three) -> None:
    with doors.raw(READ) as idle, doors.raw(READ) as other:
        other.send(parse("SELECT pg_terminate_backend($1)"), describe(b"S"), SYNC)
        kinds = dict(other.until_ready())
        assert b"\0\0\0\x10" in kinds["T"], "the column is a bool, of type 16"
        assert idle.rows("SELECT 1") == [["1"]]
        other.send(bind((str(idle.key[0]).encode(),)), execute(), SYNC)
        rows = [row_of(body) for kind, body in other.until_ready() if kind == "D"]
        assert rows == [["t"]]
        assert idle.ended()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 WHERE pg_terminate_backend(1)",
        "SELECT NOT pg_cancel_backend(1)",
        "SELECT *, pg_cancel_backend(pid) FROM pg_stat_activity",
        "SELECT * FROM (SELECT pg_cancel_backend(1)) AS t",
    ],
)
def test_a_call_elsewhere_is_refused_in_one_sentence(doors: Three, sql: str) -> None:
    with doors.raw(READ) as one:
        found = one.fails(sql)
        assert (found["C"], "column" in found["M"]) == ("0A000", True), found


@pytest.mark.parametrize(
    "call", ["pg_terminate_backend()", "pg_cancel_backend()", "pg_cancel_backend(1, 2)"]
)
def test_a_call_without_a_session_is_a_function_that_there_is_not(doors: Three, call: str) -> None:
    with doors.raw(READ) as one:
        found = one.fails(f"SELECT {call}")
        assert (found["C"], "takes the number of a session" in found["M"]) == ("42883", True), found


def test_a_timeout_may_follow_the_number(doors: Three) -> None:
    with doors.raw(READ) as idle, doors.raw(READ) as other, doors.raw(OTHER) as stranger:
        asked = f"SELECT pg_terminate_backend({idle.key[0]}, 5000)"
        assert stranger.rows(asked) == [["f"]]
        assert other.rows(asked) == [["t"]]
        assert idle.next()[0] == "E"
        assert idle.ended()
