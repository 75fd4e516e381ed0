"""The columns that a query can read: all that it names anywhere, all of them where a star or a row
as a value is over the table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from blockstore.reader.query.runners.instance import Instance, Limits
from blockstore.reader.query.sql.hidden import hide
from blockstore.reader.query.sql.reading import columns_read
from blockstore.reader.query.sql.statement import parse
from blockstore.reader.query.sql.syntax import Syntax

SCHEMAS = {
    "t": pa.schema([(name, pa.int64()) for name in "abcd"]),
    "u": pa.schema([(name, pa.int64()) for name in "axy"]),
}
ALL = {"t": "abcd", "u": "axy"}


@pytest.fixture(scope="module")
def syntax() -> Syntax:
    return Syntax(Instance([], Limits(threads=1)).cursor)


def read(syntax: Syntax, sql: str) -> dict[str, str]:
    statement = parse(syntax, sql, str)
    hide(statement, SCHEMAS)
    return {
        view: ALL.get(view, "?")
        if named is None
        else "".join(name for name in ALL.get(view, "abcd") if named.has(name))
        for view, named in columns_read(statement).items()
    }


@pytest.mark.parametrize(
    ("sql", "t"),
    [
        ("SELECT count(*) FROM t", ""),
        ('SELECT A FROM t WHERE "B" > 1', "ab"),
        ("SELECT a FROM t GROUP BY ALL ORDER BY ALL", "a"),
        ("SELECT t.a FROM t AS t", "a"),
        ("SELECT 1 FROM t ORDER BY c", "c"),
        ("SELECT a.abs() FROM t", "a"),
        ("SELECT t.d.abs() FROM t", "d"),
        ("SELECT max(a) OVER (PARTITION BY b ORDER BY c) FROM t", "abc"),
        ("SELECT a FROM t QUALIFY row_number() OVER (ORDER BY d) = 1", "ad"),
        ("SELECT * FROM t", "abcd"),
        ("FROM t", "abcd"),
        ("SELECT * EXCLUDE (a) FROM t", "abcd"),
        ("SELECT COLUMNS('a') FROM t", "abcd"),
        ("SELECT t FROM t", "abcd"),
        ("SELECT main.t FROM t", "abcd"),
        ("SELECT z FROM t AS z", "abcd"),
        ("SELECT z.struct_extract('a') FROM t AS z", "abcd"),
        ("SELECT list(t.*) FROM t", "abcd"),
        ("SELECT #1 FROM t", "abcd"),
        ("SELECT z FROM t AS y(z)", "abcd"),
        ("DESCRIBE t", ""),
        ("SUMMARIZE t", "abcd"),
        ("SELECT a FROM (SELECT a, b FROM t) AS x", "ab"),
        ("SELECT * FROM (SELECT a, b FROM t) AS x", "ab"),
        ("SELECT x FROM (SELECT a, b FROM t) AS x", "ab"),
        ("WITH x AS (SELECT * FROM t) SELECT a FROM x", "abcd"),
        ("SELECT (SELECT t.b) FROM t", "b"),
        ("SELECT (SELECT t) FROM t", "abcd"),
        ("SELECT a FROM t UNION BY NAME SELECT b FROM t", "ab"),
        ("SELECT * FROM t PIVOT (max(a) FOR b IN (1))", "abcd"),
    ],
)
def test_what_is_read_of_one_table(syntax: Syntax, sql: str, t: str) -> None:
    assert read(syntax, sql) == {"t": t}


@pytest.mark.parametrize(
    ("sql", "t", "u"),
    [
        ("SELECT t.b, u.y FROM t JOIN u USING (a)", "ab", "ay"),
        ("SELECT u.* FROM t JOIN u ON t.b = u.x", "b", "axy"),
        ("SELECT * FROM t JOIN u ON t.b = u.x", "abcd", "axy"),
        ("SELECT b FROM t NATURAL JOIN u", "abcd", "axy"),
        ("SELECT u FROM t, u WHERE b = 1", "b", "axy"),
        ("SELECT b FROM t WHERE EXISTS (SELECT * FROM u WHERE u.x = t.c)", "bc", "axy"),
        ("SELECT b FROM t SEMI JOIN u ON t.a = u.a", "ab", "a"),
        (
            "SELECT x.m FROM t, LATERAL (SELECT max(y) AS m FROM u WHERE u.a = t.d) AS x",
            "ad",
            "axy",
        ),
    ],
)
def test_what_is_read_of_two_tables(syntax: Syntax, sql: str, t: str, u: str) -> None:
    found = read(syntax, sql)
    assert set(t) <= set(found["t"])
    assert set(u) <= set(found["u"])
    assert len(found["t"]) <= len(t) + 1
    assert len(found["u"]) <= len(u) + 1


def test_a_view_with_hidden_columns_is_read_for_itself(syntax: Syntax) -> None:
    found = read(syntax, "SELECT a, _row_id FROM t WHERE b IN (SELECT max(b) FROM t AS z)")
    assert set(found) == {"t", "_blockstore_0"}
    assert set(found.values()) == {"ab"}
