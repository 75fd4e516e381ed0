"""The parser: a text goes to it as it is, a short one once, a long one each time; what is kept is never changed by its user."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reader.query.statement import parse
from reader.query.syntax import Syntax
from reader.tables import Names


class Counting:
    """A connection that counts what it executes."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self.asked = -1  # what is prepared does not count

    def execute(self, sql: str) -> Any:
        self.asked += 1
        return self._connection.execute(sql)


def counted(connection: duckdb.DuckDBPyConnection) -> tuple[Syntax, Counting]:
    counting = Counting(connection.cursor())
    return Syntax(lambda: counting), counting  # type: ignore[arg-type, return-value]


def test_a_short_text_is_parsed_once_and_a_long_one_each_time() -> None:
    with duckdb.connect() as connection:
        syntax, counting = counted(connection)
        short, long = (
            "SELECT a FROM t WHERE a = $1",
            f"SELECT a FROM t WHERE a IN ({', '.join(['1'] * 2_000)})",
        )
        assert syntax(short) == syntax(short)
        assert counting.asked == 1
        assert syntax(long) == syntax(long)
        assert counting.asked == 3


def test_what_is_kept_serves_tables_of_any_name_and_is_not_changed() -> None:
    with duckdb.connect() as connection:
        syntax, counting = counted(connection)
        first = parse(syntax, "SELECT a FROM T", Names(["t"]).find)
        first.root.clear()
        assert parse(syntax, "SELECT a FROM T", Names(["T"]).find).tables == {"T"}
        assert counting.asked == 1


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
