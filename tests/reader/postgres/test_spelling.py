"""Names of types that mean something else in PostgreSQL are spelled so that no digit is lost."""

from __future__ import annotations

import pytest

from blockstore.reader.postgres.spelling import _typed
from blockstore.reader.postgres.texts import split


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("SELECT x::float, y :: numeric", "SELECT x::DOUBLE, y :: DECIMAL(38, 9)"),
        ("SELECT CAST(f(x, 1) AS Float)", "SELECT CAST(f(x, 1) AS DOUBLE)"),
        ("SELECT CAST((x) AS decimal) AS numeric", "SELECT CAST((x) AS DECIMAL(38, 9)) AS numeric"),
        ("SELECT x::float[]", "SELECT x::DOUBLE[]"),
        (r"SELECT '\x00ff'::bytea, x", r"SELECT '\x00\xff'::bytea, x"),
        (r"SELECT CAST('\x00fF' AS bytea)", r"SELECT CAST('\x00\xfF' AS bytea)"),
        (r"INSERT INTO t VALUES ('\x'::bytea)", r"INSERT INTO t VALUES (''::bytea)"),
        (r"SELECT '\x00\xff'::bytea, '\x0'::bytea, '\x00ff'::text, x::bytea", ""),
        ("SELECT x::float(24), y::numeric(9, 2), z::float8, r::real", ""),
        ("SELECT x AS float, 'x::float', \"x::float\"", ""),
        ("SELECT count(float) FROM (SELECT 1 AS float) AS numeric", ""),
        ("SELECT float FROM t WHERE numeric > 1 ORDER BY decimal", ""),
        ("INSERT INTO t SELECT x::numeric FROM u", "INSERT INTO t SELECT x::DECIMAL(38, 9) FROM u"),
        (
            "CREATE TABLE t (float float NOT NULL, n numeric, PRIMARY KEY (float))",
            "CREATE TABLE t (float DOUBLE NOT NULL, n DECIMAL(38, 9), PRIMARY KEY (float))",
        ),
        ("CREATE TABLE float AS SELECT 1 AS float", ""),
        ("ALTER TABLE t ADD COLUMN float float", "ALTER TABLE t ADD COLUMN float DOUBLE"),
        ("ALTER TABLE t ADD x numeric", "ALTER TABLE t ADD x DECIMAL(38, 9)"),
        ("ALTER TABLE t ALTER x TYPE float", "ALTER TABLE t ALTER x TYPE DOUBLE"),
        ("ALTER TABLE t RENAME COLUMN float TO numeric", ""),
        ("ALTER TABLE t DROP COLUMN float", ""),
        ("ALTER TABLE t DROP float", ""),
        ("ALTER TABLE t ADD float float", "ALTER TABLE t ADD float DOUBLE"),
        ("ALTER TABLE t ALTER float TYPE float", "ALTER TABLE t ALTER float TYPE DOUBLE"),
        ("ALTER TABLE t RENAME float TO x", ""),
        ("ALTER TABLE IF EXISTS numeric ADD COLUMN IF NOT EXISTS float int", ""),
        ("DROP TABLE IF EXISTS numeric", ""),
        ("CREATE TABLE IF NOT EXISTS float (a int)", ""),
        ("COMMENT ON COLUMN t.float IS 'a float'", ""),
        ("CREATE TABLE t (a float, b int) ", "CREATE TABLE t (a DOUBLE, b int)"),
        (
            "CREATE TABLE t AS SELECT a::float AS b FROM u",
            "CREATE TABLE t AS SELECT a::DOUBLE AS b FROM u",
        ),
    ],
)
def test_a_type_is_spelled_and_a_name_is_not(given: str, found: str) -> None:
    (part,) = split(given)
    made = _typed(part)
    assert made.sql == (found or given)
    assert [made.sql[one.start : one.end] for one in made.tokens if one.word] == [
        one.text for one in made.tokens if one.word
    ]
