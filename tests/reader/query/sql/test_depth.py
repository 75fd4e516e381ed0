"""How deep SQL may be nested: refused with its place, before DuckDB's parser sees it."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from blockstore.reader.errors import BadSql
from blockstore.reader.query.sql.depth import MOST, MOST_WITH, TooDeep, check_depth
from blockstore.reader.query.sql.syntax import Syntax
from blockstore.reader.statements.texts import split

DEEP = {
    "unclosed": "select " + "(" * 100_000,
    "closed": "select " + "(" * 5_000 + "1" + ")" * 5_000,
    "an insert": "insert into t values " + "(" * 20_000,
    "brackets": "select " + "[" * 5_000,
    "braces": "select " + "{'a':" * 5_000,
    "closed by another": "select " + "(]" * 5_000,
    "signs": "select " + "@ " * 100_000 + "1",
    "signs with comments": "select " + "|/ /* ( */ " * 20_000 + "1",
    "signs in parentheses": "select " + ("- @ " * 90 + "(") * 190 + "1" + ")" * 190,
    "with": "with a as (" * 8,
    "with in lines": "WITH a AS NOT MATERIALIZED -- (\n(" * 8,
    "with and comments": "with a as/* ( */(" * 8 + "select 1" + ")" * 8,
    "after a text": "select 1e'\\''" + "(" * 5_000,
    "after a space that is none": "select a\u00a0e'\\''" + "(" * 5_000,
}
FLAT = {
    "rows": "insert into t values " + ", ".join(f"(-{n}, - -1)" for n in range(5_000)),
    "texts": "select '" + "(" * 5_000 + "', $$" + "[" * 5_000 + '$$, "' + "@" * 5_000 + '"',
    "comments": "select 1 /* " + "(" * 5_000 + " */ -- " + "@" * 5_000,
    "with": "with a as (" * MOST_WITH + "select 1" + ") select * from a" * MOST_WITH,
    "with after with": "with " + ", ".join(f"a{n} as (select {n})" for n in range(50)) + " from a1",
    "casts": "select " + "cast(" * 50 + "1" + " as int)" * 50,
    "terms": "select 1 " + "+ (-1)" * 300,
    "nested": "select " + "(" * MOST + "1" + ")" * MOST,
}


@pytest.fixture(scope="module")
def syntax() -> Iterator[Syntax]:
    with duckdb.connect() as connection:
        yield Syntax(connection.cursor)


@pytest.mark.parametrize("sql", DEEP.values(), ids=DEEP)
def test_what_is_nested_too_deeply_is_refused_before_it_is_parsed(syntax: Syntax, sql: str) -> None:
    for call in (syntax, syntax.split, syntax.parameters):
        with pytest.raises(BadSql, match=r"is nested too deeply.* at line \d, col"):
            call(sql)


@pytest.mark.parametrize("sql", FLAT.values(), ids=FLAT)
def test_what_is_flat_is_parsed(syntax: Syntax, sql: str) -> None:
    check_depth(sql)
    assert len(syntax.split(sql)) == 1
    syntax(sql)


@pytest.mark.parametrize("name", ["unclosed", "closed", "an insert", "signs"])
def test_statements_are_refused_likewise(syntax: Syntax, name: str) -> None:
    with pytest.raises(BadSql, match=r"is nested too deeply.* at line \d, col"):
        split(syntax, DEEP[name])


def test_its_place_is_one_in_the_complete_text(syntax: Syntax) -> None:
    sql = "select 'é\u00a0';\n\nselect 'é', " + "(" * 300
    with pytest.raises(BadSql) as found:
        split(syntax, sql)
    assert (found.value.line, found.value.column) == (3, len("select 'é', ") + MOST + 1)
    with pytest.raises(TooDeep) as alone:
        check_depth(sql)
    assert (alone.value.line, alone.value.column) == (3, len("select 'é', ") + MOST + 1)
