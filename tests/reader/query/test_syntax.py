"""The parser: a short text is parsed once, a long one each time, and what is kept is never changed by its user."""

from __future__ import annotations

from collections.abc import Callable

import duckdb

from reader.query.statement import parse
from reader.query.syntax import Syntax
from reader.tables import Names


def counted(connection: duckdb.DuckDBPyConnection) -> tuple[Syntax, list[int]]:
    asked: list[int] = []
    cursor: Callable[[], duckdb.DuckDBPyConnection] = connection.cursor

    def counting() -> duckdb.DuckDBPyConnection:
        asked.append(1)
        return cursor()

    return Syntax(counting), asked


def test_a_short_text_is_parsed_once_and_a_long_one_each_time() -> None:
    with duckdb.connect() as connection:
        syntax, asked = counted(connection)
        short, long = (
            "SELECT a FROM t WHERE a = $1",
            f"SELECT a FROM t WHERE a IN ({', '.join(['1'] * 2_000)})",
        )
        assert syntax(short) == syntax(short)
        assert len(asked) == 1
        assert syntax(long) == syntax(long)
        assert len(asked) == 3


def test_what_is_kept_serves_tables_of_any_name_and_is_not_changed() -> None:
    with duckdb.connect() as connection:
        syntax, asked = counted(connection)
        first = parse(syntax, "SELECT a FROM T", Names(["t"]).find)
        first.root.clear()
        assert parse(syntax, "SELECT a FROM T", Names(["T"]).find).tables == {"T"}
        assert len(asked) == 1
