"""What a query may be; every way out that DuckDB's documentation names is refused before anything
runs."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from blockstore.errors import Invalid, NotFound
from blockstore.reader.errors import BadSql
from blockstore.reader.query.sql.statement import parse
from blockstore.reader.query.sql.syntax import Syntax
from blockstore.reader.tables import Names


@pytest.fixture(scope="module")
def parser() -> Iterator[Syntax]:
    with duckdb.connect() as connection:
        yield Syntax(connection.cursor)


ADMITTED = [
    (
        "SELECT a, count(*) FILTER (WHERE b > 1), row_number() OVER (PARTITION BY a ORDER BY b) "
        "FROM "
        "t GROUP BY ALL LIMIT 5"
    ),
    (
        "SELECT sum(a) OVER w FROM t WINDOW w AS (PARTITION BY a ORDER BY b ROWS BETWEEN 1 "
        "PRECEDING "
        "AND CURRENT ROW)"
    ),
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
    "SELECT * FROM t UNION ALL BY NAME SELECT * FROM u EXCEPT SELECT * FROM t",
    "SELECT DISTINCT ON (a) * EXCLUDE (b) REPLACE (a + 1 AS a) FROM t ORDER BY a DESC NULLS LAST",
    (
        "SELECT COLUMNS('a.*'), CASE WHEN a THEN 1 ELSE 2 END, a[1], a.b, a[1:2], [x + 1 FOR x "
        "IN a], "
        "{'a': 1} FROM t"
    ),
    (
        "SELECT a::INT, TRY_CAST(a AS DATE), INTERVAL 1 DAY, a IS DISTINCT FROM b, a IN (SELECT "
        "1), a "
        "SIMILAR TO 'x' FROM t"
    ),
    (
        "SELECT list_transform(a, lambda x: x + 1), a COLLATE nocase, $1, ?::INT, array(SELECT 1) "
        "FROM t"
    ),
    "SELECT * FROM t LEFT JOIN u USING (a) SEMI JOIN t v ON true CROSS JOIN t x NATURAL JOIN u y",
    "SELECT * FROM t ASOF JOIN u ON t.a >= u.a",
    "SELECT * FROM t POSITIONAL JOIN u",
    "FROM t SELECT a QUALIFY row_number() OVER () = 1",
    "TABLE t",
    "SELECT * FROM (VALUES (1), (2)) v(x), range(5), unnest([1])",
    "SELECT a, grouping(a) FROM t GROUP BY ROLLUP (a), CUBE (b), GROUPING SETS ((a), ())",
    "SUMMARIZE t",
    "DESCRIBE t",
    "UNPIVOT t ON a",
    "SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))",
    "SELECT * FROM t TABLESAMPLE 10%",
    (
        "SELECT median(a), quantile_cont(a, 0.5), string_agg(a, ',' ORDER BY b), max(a) FROM t "
        "HAVING "
        "max(a) > 1"
    ),
]


@pytest.mark.parametrize("sql", ADMITTED)
def test_what_selects_from_the_tables_is_admitted(parser: Syntax, sql: str) -> None:
    assert parse(parser, sql, Names(["t", "u"]).find).tables <= {"t", "u"}


REFUSED = [
    "ATTACH 'x.db'",
    "BEGIN",
    "CALL pragma_version()",
    "CHECKPOINT",
    "COPY t TO 'x'",
    "CREATE SECRET (TYPE s3)",
    "CREATE TABLE x AS SELECT 1",
    "CREATE MACRO f(x) AS x",
    "DELETE FROM t",
    "DROP VIEW t",
    "EXECUTE x",
    "EXPLAIN ANALYZE SELECT 1",
    "EXPORT DATABASE 'x'",
    "IMPORT DATABASE 'x'",
    "INSERT INTO t VALUES (1)",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA enable_profiling",
    "PREPARE x AS SELECT 1",
    "RESET threads",
    "SET threads = 1",
    "SET VARIABLE x = 1",
    "UPDATE t SET a = 1",
    "USE memory",
    "VACUUM",
    "",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY t TO 'x'",
    "WITH a AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM a",
    "SHOW TABLES",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM READ_CSV_AUTO('/etc/passwd')",
    "SELECT (SELECT content FROM read_text('/etc/passwd'))",
    "SELECT * FROM t WHERE a IN (SELECT content FROM read_blob('/etc/passwd'))",
    "WITH t AS (FROM read_json('/etc/passwd')) FROM t",
    "SELECT * FROM t UNION ALL FROM glob('/*')",
    "SELECT * FROM t, LATERAL (FROM read_parquet(t.a))",
    "SELECT * FROM system.main.read_text('/etc/passwd')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('x.parquet')",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('t')",
    "SELECT * FROM json_execute_serialized_sql('x')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM which_secret('s3://x', 's3')",
    "SELECT * FROM pragma_version()",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT getenv('HOME')",
    "SELECT system.main.getenv('HOME')",
    "SELECT current_setting('temp_directory')",
    "SELECT write_log('x')",
    "SELECT pg_sleep(1000)",
    "SELECT * FROM t AT (VERSION => 1 + 2)",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_what_reaches_past_the_tables_is_refused(parser: Syntax, sql: str) -> None:
    with pytest.raises(Invalid) as raised:
        parse(parser, sql, Names(["t"]).find)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "name",
    [
        "'/etc/passwd'",
        '"/etc/passwd"',
        "'x.parquet'",
        "information_schema.tables",
        "duckdb_views",
        "sqlite_master",
        "main.t",
        "x.y.t",
    ],
)
def test_a_name_that_is_no_given_table_is_not_found(parser: Syntax, name: str) -> None:
    with pytest.raises(NotFound, match="there is no table"):
        parse(parser, f"SELECT * FROM {name}", Names(["t"]).find)


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", {"t"}),
        ("WITH t AS (SELECT 1) SELECT * FROM t", set()),
        ("WITH v AS (SELECT * FROM t), t AS (SELECT 1) SELECT * FROM v, t", {"t"}),
        (
            "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT * FROM t",
            set(),
        ),
        ("SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t), t", {"t"}),
        ('SELECT * FROM T JOIN "U" ON true', {"t", "u"}),
        ("SELECT 1", set()),
    ],
)
def test_a_with_hides_a_table_of_its_name_only_where_it_is_seen(
    parser: Syntax, sql: str, tables: set[str]
) -> None:
    assert parse(parser, sql, Names(["t", "u"]).find).tables == tables


def test_the_place_of_a_mistake_is_reported(parser: Syntax) -> None:
    with pytest.raises(Invalid, match="line 2, column 14"):
        parse(parser, "SELECT 'ü'\nFROM t WHERE WHERE", Names(["t"]).find)


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM t AT (VERSION => {n})", "SELECT * FROM t.changes(after => {n})"]
)
def test_a_number_of_too_many_digits_is_refused_in_plain_words(parser: Syntax, sql: str) -> None:
    with pytest.raises(BadSql, match="has 5,000 digits, expected at most 39: shorten it"):
        parse(parser, sql.format(n="9" * 5_000), Names(["t"]).find)
