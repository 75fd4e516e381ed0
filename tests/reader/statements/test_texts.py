"""A text with statements is parsed completely before any of it runs, and what is wrong is named
with its line and column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.errors import BlockstoreError
from blockstore.reader.errors import BadSql
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.door import opened
from blockstore.reader.statements.session import Session
from blockstore.reader.statements.texts import numbered
from blockstore.reader.statements.tokens import Cursor, tokens_of

SCHEMA = pa.schema([("k", pa.int64()), ("a", pa.int32()), ("b", pa.string())])


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    bs.create(str(tmp_path / "t"), schema=SCHEMA, key="k").upsert(
        pa.table({"k": [1, 2], "a": [1, 2], "b": ["x", "y"]}, schema=SCHEMA)
    )
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with opened(str(tmp_path)) as session:
        yield session


def run(session: Session, text: str) -> None:
    for one in session.parse(text):
        session.run(one, Doing())


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("UPDATE t SET\n  a = nope", 2, 7, "nope"),
        ("SELECT 1;\n  UPDATE t SET a = nope", 2, 20, "nope"),
        ("UPDATE t SET a = 'abc'", 1, 18, "abc"),
        ("UPDATE t\nSET zz = 1", 2, 5, "no column zz"),
        ("UPDATE t SET k = 1", 1, 14, "part of the key"),
        ("UPDATE t SET a = 1, a = 2", 1, 21, "twice"),
        ("INSERT INTO t VALUES (1)", 1, 22, "1 values are given for 3 columns"),
        ("DELETE FROM t WHERE (", 1, 21, "syntax error"),
        ("SELECT 1;\n\nPRAGMA version", 3, 1, "PRAGMA is not a statement"),
        ("MERGE INTO t USING t AS s ON t.k = s.k WHEN NOT MATCHED THEN DELETE", 1, 45, "inserted"),
    ],
)
def test_an_error_names_its_line_and_column(
    session: Session, text: str, line: int, column: int, says: str
) -> None:
    with pytest.raises(BadSql) as error:
        run(session, text)
    assert (error.value.line, error.value.column) == (line, column), error.value
    assert says in str(error.value)
    assert f"at line {line}, column {column}" in str(error.value)


REFUSED = (
    "SELECT * FROM read_csv('{folder}/secret.csv')",
    "SELECT * FROM '{folder}/secret.csv'",
    "INSERT INTO t SELECT 1, 1, content FROM read_text('{folder}/secret.csv')",
    "UPDATE t SET b = getenv('HOME')",
    "UPDATE t SET b = (SELECT content FROM read_text('{folder}/secret.csv'))",
    "DELETE FROM t USING read_csv('{folder}/secret.csv') AS f WHERE f.a = t.a",
    "MERGE INTO t USING read_csv('{folder}/secret.csv') AS f ON f.a = t.a WHEN MATCHED THEN DELETE",
    "DELETE FROM t WHERE true RETURNING getenv('HOME')",
    "INSERT INTO t VALUES (9, 9, getenv('HOME'))",
    "UPDATE t SET a = 1) FROM (SELECT 1",
    "UPDATE t SET a = 1 WHERE b = (SELECT x FROM information_schema.tables)",
    "CREATE TABLE n (a VARCHAR DEFAULT getenv('HOME'))",
    "CREATE TABLE n AS SELECT * FROM read_csv('{folder}/secret.csv')",
    "CREATE TABLE n (a INT); COPY t TO '{folder}/out.csv'",
    "CREATE VIEW v AS SELECT 1",
    "CREATE MACRO m() AS 1",
    "ATTACH '{folder}/x.db'",
    "PRAGMA database_list",
    "SET memory_limit = '1GB'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "EXPORT DATABASE '{folder}/out'",
    "CALL pragma_version()",
    "EXPLAIN COPY t TO '{folder}/out.csv'",
    "PREPARE p AS SELECT 1",
    "UPDATE t SET a = 7; SET threads = 1",
    "DELETE FROM t; SELECT (",
)


@pytest.mark.parametrize("text", REFUSED)
def test_what_reaches_beyond_the_tables_is_refused_and_nothing_is_changed(
    session: Session, tmp_path: Path, text: str
) -> None:
    table = bs.open(str(tmp_path / "t"))
    before = table.log.state.version
    files = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(BlockstoreError):
        run(session, text.format(folder=tmp_path))
    assert table.poll() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == files


def test_statements_before_one_that_fails_stay(session: Session, tmp_path: Path) -> None:
    with pytest.raises(BadSql):
        run(session, "DELETE FROM t WHERE k = 1; UPDATE t SET a = 'abc'; DELETE FROM t")
    assert bs.open(str(tmp_path / "t")).snapshot().count() == 1


def test_quotes_comments_and_cases_hide_keywords() -> None:
    text = "a = 'x WHERE' /* FROM */ || \"WHERE\" || CASE WHEN 1 THEN 2 END -- SET\n WHERE b"
    cursor = Cursor(text)
    piece = cursor.until(("WHERE",), ("WHEN",))
    assert piece.text.endswith("END")
    assert cursor.take("WHERE")
    assert [token.text for token in tokens_of("EXPLAIN SELECT 1")] == ["EXPLAIN", "SELECT", "1"]


def test_a_comparison_of_nulls_is_not_the_from_of_an_update() -> None:
    cursor = Cursor("a IS DISTINCT FROM b FROM c")
    assert cursor.until(("FROM",)).text == "a IS DISTINCT FROM b"


def test_numbered_parameters_need_no_spaces() -> None:
    found = [one.text for one in tokens_of("VALUES ($1,$2,$10), ('$1,$2', $$a b$$, $x$c$1$x$)")]
    signs = [one for one in found if one not in "(),"]
    assert signs == ["VALUES", "$1", "$2", "$10", "$1,$2", "a b", "c$1"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("($x,$y,$x_1)", ["(", "$x", ",", "$y", ",", "$x_1", ")"]),
        ("$x+$y", ["$x", "+", "$y"]),
        ("$é,$é", ["$é", ",", "$é"]),
        ("$from,$select", ["$from", ",", "$select"]),
        ("'$x,$' || $x,$y", ["$x,$", "||", "$x", ",", "$y"]),
        ('"$x,$y",$x,$y', ["$x,$y", ",", "$x", ",", "$y"]),
        ("-- $x,$\n$x,$y", ["$x", ",", "$y"]),
        ("/* $x,$ */$x,$y", ["$x", ",", "$y"]),
        ("$$ $x,$y $$,$x", [" $x,$y ", ",", "$x"]),
        ("$t$ $x,$y $t$,$x,$t$b$t$", [" $x,$y ", ",", "$x", ",", "b"]),
        ("$t$a $x$ b$t$,$t,$t", ["a $x$ b", ",", "$t", ",", "$t"]),
        ("$t$ '$t$,$x,$y,'$t$'", [" '", ",", "$x", ",", "$y", ",", "$t$"]),
        ("a$b,$x,$y", ["a$b", ",", "$x", ",", "$y"]),
    ],
)
def test_named_parameters_need_no_blanks(text: str, parts: list[str]) -> None:
    assert [one.text for one in tokens_of(text)] == parts


def test_an_open_text_is_quoted_as_it_was_written() -> None:
    with pytest.raises(BadSql, match=r"\$x,\$y"):
        tokens_of("SELECT $x,$y, 'open")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("a = ? AND b = ''", "a = $1 AND b = ''"),
        ("a = ? AND b = '?' -- ?", "a = $1 AND b = '?' -- ?"),
        ('a = ?/*?*/+? AND "?" = ?', 'a = $1/*?*/+$2 AND "?" = $3'),
        ("a = $1 AND b = ''", "a = $1 AND b = ''"),
        ("nothing", "nothing"),
    ],
)
def test_question_marks_are_numbered_where_they_are_parameters(given: str, found: str) -> None:
    assert numbered(f"DELETE FROM t WHERE {given}") == f"DELETE FROM t WHERE {found}"
