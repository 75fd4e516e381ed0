"""The parser: a text goes to it as it is, a short one once, a long one each time; what is kept is
never changed by its user."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.reader.query.sql.statement import parse
from blockstore.reader.query.sql.syntax import Syntax
from blockstore.reader.tables import Names


class Counting:
    """A connection, and those made of it, that count what they execute."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, asked: list[str] | None = None
    ) -> None:
        self._connection = connection
        self.asked: list[str] = [] if asked is None else asked
        self.before: Callable[[], object] = lambda: None

    def cursor(self) -> Counting:
        made = Counting(self._connection.cursor(), self.asked)
        made.before = self.before
        return made

    def execute(self, sql: str, values: Any = None) -> Any:
        if not sql.startswith("PREPARE"):
            self.asked.append(sql)
        if values is not None:
            self.before()
        return self._connection.execute(sql, values)

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


SHORT = "SELECT a FROM t WHERE a = $1"
LONG = f"SELECT a FROM t WHERE a IN ({', '.join(['1'] * 2_000)})"


def counted(connection: duckdb.DuckDBPyConnection) -> tuple[Syntax, Counting]:
    counting = Counting(connection)
    return Syntax(counting.cursor), counting  # type: ignore[arg-type]


def test_a_short_text_is_parsed_once_and_a_long_one_each_time() -> None:
    with duckdb.connect() as connection:
        syntax, counting = counted(connection)
        assert syntax(SHORT) == syntax(SHORT)
        assert len(counting.asked) == 1
        assert syntax(LONG) == syntax(LONG)
        assert len(counting.asked) == 3


def test_nobody_waits_for_another_s_long_text() -> None:
    with duckdb.connect() as connection:
        counting, inside, go_on = Counting(connection), threading.Event(), threading.Event()

        def stuck() -> None:
            inside.set()
            assert go_on.wait(30)

        counting.before = stuck
        syntax = Syntax(counting.cursor)  # type: ignore[arg-type]
        with ThreadPoolExecutor() as pool:
            long = pool.submit(syntax, LONG)
            assert inside.wait(30)
            assert pool.submit(syntax, SHORT).result(timeout=30)
            assert not long.done()
            go_on.set()
            assert long.result(timeout=30)


def test_what_is_kept_serves_tables_of_any_name_and_is_not_changed() -> None:
    with duckdb.connect() as connection:
        syntax, counting = counted(connection)
        first = parse(syntax, "SELECT a FROM T", Names(["t"]).find)
        first.root.clear()
        assert parse(syntax, "SELECT a FROM T", Names(["T"]).find).tables == {"T"}
        assert len(counting.asked) == 1


PLAIN = duckdb.connect()
SYNTAX = Syntax(PLAIN.cursor)


def by_parameter(sql: str) -> str:
    """The same answer, asked for by a parameter that no text can escape from."""
    found = PLAIN.execute(
        "SELECT json_serialize_sql($1::VARCHAR, skip_empty := true, skip_null := true)", [sql]
    ).fetchall()
    answer: str = found[0][0]
    return answer


@pytest.mark.parametrize(
    "sql",
    [
        "'); DROP TABLE t; --",
        "SELECT 'it''s', E'\\'', $$'$$, \"a'b\"",
        "SELECT 1 -- '",
        "/* ' */ SELECT '\\'",
        "SELECT '",
        "",
        "SELECT ? || $name",
        "SELECT 'ü', '\U0001f600', '\n\t'",
    ],
)
def test_no_text_escapes_from_its_quotes(sql: str) -> None:
    assert SYNTAX(sql) == by_parameter(sql)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30))
def test_any_text_is_parsed_as_it_is(sql: str) -> None:
    quoted = f"SELECT '{sql}', {sql}"
    assert SYNTAX(sql) == by_parameter(sql)
    assert SYNTAX(quoted) == by_parameter(quoted)
