"""Hidden columns in SQL: whatever a table's own columns are called, and never in a star."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from blockstore.errors import Invalid
from blockstore.format.definition import Definition
from blockstore.reader.errors import BadSql
from blockstore.reader.query import Engine
from blockstore.scan.view import TableSnapshot
from tests.blockstore.scan.tables import Lake, row
from tests.reader.query.lakes import snapshot_of

HOSTILE = (
    "source",
    "version",
    "path",
    "first_row_id",
    "file_row_number",
    "blockstore_file",
    "blockstore_facts",
    "filename",
    "file_index",
    "file_last_modified",
    "chunk",
    "rowid",
    "row_id",
    "read_parquet",
)
SPELLED = tuple(dict.fromkeys((*HOSTILE, *map(str.upper, HOSTILE), *map(str.title, HOSTILE))))
MERGED = ["01J00000000000000000000011", "01J00000000000000000000012"]


def table_with(name: str, *, merged: bool) -> tuple[Lake, list[dict[str, Any]]]:
    """A table with a column of this name and an odd one, and its rows with all hidden columns that
    are known."""
    made = Lake(
        definition=Definition.create(
            pa.schema([("time", pa.timestamp("us")), ("n", pa.int32()), (name, pa.string())]),
            time_column="time",
            sort_by=["n"],
        )
    )
    expected: list[dict[str, Any]] = []
    for version, numbers in enumerate(((1, 2, 3), (4, 5)), start=1):
        rows = [{"time": row(n, n)["time"], "n": n, name: f"own {n}"} for n in numbers]
        first = 1001 if expected == [] else 1004
        ulid = made.append(rows, chunks=2 if len(rows) == 3 else 1)
        expected += [
            {
                "n": n,
                "own": f"own {n}",
                "_source": ulid,
                "_row_id": first - 1 + place,
                "_version": version,
            }
            for place, n in enumerate(numbers)
        ]
    if merged:
        rows = [
            {"time": row(n, n)["time"], "n": n, name: f"own {n}", "_source": MERGED[n % 2]}
            for n in (6, 7, 8, 9)
        ]
        made.commit(made.write(rows, sources=MERGED), excepted=[MERGED[1]])
        expected += [{"n": n, "own": f"own {n}", "_source": MERGED[0]} for n in (6, 8)]
    return made, expected


def answers(engine: Engine, sql: str, tables: dict[str, TableSnapshot]) -> list[dict[str, Any]]:
    """The rows of a query over these tables in place of the engine's."""
    with engine.run(sql, taken=tables) as answer:
        return sorted(answer.reader.read_all().to_pylist(), key=lambda one: one["n"])


ALL_HIDDEN = (
    'SELECT n, "{c}" AS own, _source, _row_id, _version FROM t WHERE n <= 5',
    (
        'SELECT a.n, a."{c}" AS own, A._Source, a._row_id, _version FROM t AS a WHERE _row_id '
        ">= 1000 "
        "AND n < 6"
    ),
    (
        'SELECT n, t."{c}" AS own, _source, _row_id, _version FROM t WHERE _version IN (1, 2) '
        "AND n < "
        "6"
    ),
    (
        "WITH w AS (SELECT *, _source, _row_id, _version FROM t WHERE n < 6) SELECT w.* EXCLUDE "
        '(time, "{c}"), w."{c}" AS own FROM w'
    ),
    (
        'SELECT t.n, t."{c}" AS own, t._source, t._row_id, t._version FROM t JOIN u USING (n) '
        "WHERE "
        "t.n < 6"
    ),
)
SOURCE_ONLY = (
    'SELECT n, "{c}" AS own, _source FROM t',
    "SELECT n, \"{c}\" AS own, _source FROM t WHERE \"{c}\" LIKE 'own%' AND _source <> ''",
    (
        'SELECT t.n, t."{c}" AS own, u._source FROM t JOIN t AS u ON t.n = u.n AND t._source = '
        "u._source"
    ),
    'SELECT n, "{c}" AS own, _source FROM (SELECT *, _source FROM t)',
)


@pytest.mark.parametrize("merged", [False, True], ids=["unmerged", "merged"])
@pytest.mark.parametrize("name", SPELLED)
def test_a_table_may_call_its_columns_what_it_likes(
    engine: Engine, tables: dict[str, TableSnapshot], name: str, merged: bool
) -> None:
    made, expected = table_with(name, merged=merged)
    both = {"t": snapshot_of(made), "u": tables["x"]}
    for sql in ALL_HIDDEN:
        known = [one for one in expected if one["n"] < 6]
        assert answers(engine, sql.format(c=name), both) == known, sql
    for sql in SOURCE_ONLY:
        sourced = [{key: one[key] for key in ("n", "own", "_source")} for one in expected]
        assert answers(engine, sql.format(c=name), both) == sourced, sql


@pytest.fixture(scope="module")
def tables() -> dict[str, TableSnapshot]:
    mine, theirs = table_with("s", merged=False)[0], table_with("v", merged=False)[0]
    return {
        "t": snapshot_of(mine),
        "u": snapshot_of(theirs),
        "m": snapshot_of(table_with("s", merged=True)[0]),
        "x": snapshot_of(table_with("x", merged=False)[0]),
    }


@pytest.fixture(scope="module")
def engine(tables: dict[str, TableSnapshot]) -> Iterator[Engine]:
    with Engine(tables) as engine:
        yield engine


def columns(engine: Engine, sql: str) -> list[str]:
    return engine.query(sql).read_all().schema.names


OWN = ["time", "n", "s"]
THEIRS = ["time", "n", "v"]
STARS: dict[str, list[str]] = {
    "SELECT *, _row_id FROM t": [*OWN, "_row_id"],
    "SELECT _row_id, * FROM t": ["_row_id", *OWN],
    "SELECT t.*, t._row_id, _version FROM t": [*OWN, "_row_id", "_version"],
    "SELECT * FROM t WHERE _row_id > 1001 ORDER BY _version, _source": OWN,
    "FROM t WHERE _source <> ''": OWN,
    "SELECT * EXCLUDE (s), _source FROM t": ["time", "n", "_source"],
    "SELECT * EXCLUDE (_source), _source FROM t": [*OWN, "_source"],
    "SELECT * EXCLUDE (_row_id, t._version) FROM t": OWN,
    "SELECT a.* EXCLUDE (_row_id) FROM t AS a": OWN,
    "SELECT * REPLACE (n + _row_id AS n) FROM t": OWN,
    "SELECT * RENAME (n AS k), _row_id FROM t": ["time", "k", "s", "_row_id"],
    "SELECT COLUMNS(*), _row_id FROM t": [*OWN, "_row_id"],
    "SELECT COLUMNS(* EXCLUDE (time)), _row_id FROM t": ["n", "s", "_row_id"],
    "SELECT COLUMNS(lambda c: c <> 'n'), _row_id FROM t": ["time", "s", "_row_id"],
    "SELECT * LIKE '%', _row_id FROM t": [*OWN, "_row_id"],
    "SELECT COLUMNS('^[ns]'), _row_id FROM t": ["n", "s", "_row_id"],
    "SELECT COLUMNS(['n', 's']), _row_id FROM t": ["n", "s", "_row_id"],
    "SELECT max(COLUMNS(*)), max(_row_id) AS last FROM t": [*OWN, "last"],
    "SELECT count(*) AS rows, max(_row_id) AS last FROM t": ["rows", "last"],
    "SELECT * FROM (SELECT *, _row_id FROM t)": [*OWN, "_row_id"],
    "SELECT * FROM (SELECT * FROM t WHERE _row_id > 0)": OWN,
    "SELECT *, r FROM (SELECT *, _row_id AS r FROM t)": [*OWN, "r", "r"],
    "SELECT * FROM t, (SELECT _row_id FROM u) AS w WHERE t._row_id = w._row_id": [*OWN, "_row_id"],
    "WITH w AS (SELECT * FROM t WHERE _version = 1) SELECT *, 1 AS one FROM w": [*OWN, "one"],
    "WITH w AS (SELECT *, _source FROM t) SELECT * EXCLUDE (_source) FROM w": OWN,
    "SELECT * FROM t JOIN u ON t._row_id = u._row_id": [*OWN, "time", "n", "v"],
    "SELECT t.*, u._row_id FROM t JOIN u USING (n)": [*OWN, "_row_id"],
    "SELECT *, t._row_id FROM t JOIN u USING (n)": [*OWN, "time", "v", "_row_id"],
    "SELECT * FROM t JOIN u USING (_row_id)": [*OWN, "time", "n", "v"],
    "SELECT * FROM t FULL JOIN u USING (n, _row_id)": [*OWN, "time", "v"],
    "SELECT *, t._row_id FROM t NATURAL JOIN u": [*OWN, "v", "_row_id"],
    "SELECT *, _row_id FROM t SEMI JOIN u USING (n)": [*OWN, "_row_id"],
    "SELECT *, t._row_id FROM t, LATERAL (SELECT t._row_id + 1 AS next)": [*OWN, "next", "_row_id"],
    "SELECT *, (SELECT max(u._row_id) FROM u WHERE u.n = t.n) AS m FROM t": [*OWN, "m"],
    "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u._row_id = t._row_id)": OWN,
    "SELECT * FROM t UNION ALL BY NAME SELECT *, _row_id FROM u": [*OWN, "v", "_row_id"],
    "SELECT *, _row_id FROM t UNION ALL SELECT *, _row_id FROM u": [*OWN, "_row_id"],
    "SELECT * FROM t UNION ALL SELECT * FROM t WHERE _row_id = 1001": OWN,
    "SELECT *, _row_id FROM t ORDER BY ALL": [*OWN, "_row_id"],
    "SELECT DISTINCT ON (_version) * FROM t": OWN,
    "SELECT *, row_number() OVER (PARTITION BY _version ORDER BY _row_id) AS place FROM t": [
        *OWN,
        "place",
    ],
    "SELECT * FROM t AS a(x, y, z) WHERE _row_id = 1001": ["x", "y", "z"],
    "SELECT * FROM t PIVOT (max(_row_id) FOR n IN (1, 2) GROUP BY s)": ["s", "1", "2"],
    "SELECT * FROM t UNPIVOT (held FOR name IN (n, _row_id))": ["time", "s", "name", "held"],
    "SELECT * FROM t UNPIVOT (held FOR name IN (COLUMNS(* EXCLUDE (time, s, _row_id))))": [
        "time",
        "s",
        "name",
        "held",
    ],
    "SELECT column_name FROM (DESCRIBE SELECT *, _row_id FROM t)": ["column_name"],
    "SELECT * FROM t WHERE _row_id = ? AND n = ?": OWN,
    "SELECT * FROM m WHERE _source = '01J00000000000000000000011'": OWN,
}


@pytest.mark.parametrize("sql", STARS)
def test_a_star_shows_no_hidden_column(engine: Engine, sql: str) -> None:
    values = [1001, 2] if "?" in sql else None
    with engine.run(sql, values) as answer:
        found = answer.reader.read_all()
    assert found.schema.names == STARS[sql]
    assert found.num_rows > 0


VALUES: dict[str, list[tuple[Any, ...]]] = {
    "SELECT n, _row_id FROM t ORDER BY ALL DESC LIMIT 2": [(5, 1004), (4, 1003)],
    "SELECT s, n, _row_id FROM t ORDER BY ALL LIMIT 1": [("own 1", 1, 1000)],
    "SELECT n FROM t NATURAL JOIN u WHERE t._row_id = 1003": [(4,)],
    "SELECT count(*) FROM t JOIN u USING (n) WHERE t._row_id = u._row_id": [(5,)],
    "SELECT n, (SELECT _row_id FROM u WHERE u.n = t.n) FROM t WHERE n = 5": [(5, 1004)],
    "SELECT n, (SELECT max(t._row_id)) FROM t WHERE n = 5 GROUP BY ALL": [(5, 1004)],
    "SELECT max(_row_id) FROM t WHERE n < 4": [(1002,)],
    "SELECT _version, count(*) FROM t GROUP BY ALL ORDER BY ALL": [(1, 3), (2, 2)],
    "SELECT _row_id AS n FROM t WHERE n = 1": [(1000,)],
    'SELECT "_ROW_ID" FROM t WHERE t.n = 2': [(1001,)],
    "SELECT n FROM t WHERE s = 'it''s \"_row_id\"' OR _row_id = 1000": [(1,)],
}


@pytest.mark.parametrize("sql", VALUES)
def test_hidden_columns_have_their_values(engine: Engine, sql: str) -> None:
    found = engine.query(sql).read_all()
    assert [tuple(one.values()) for one in found.to_pylist()] == VALUES[sql]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT t, _row_id FROM t", "reads rows of t"),
        ("SELECT count(a) FROM t AS a WHERE a._version = 1", "reads rows of a"),
        ("SELECT COLUMNS('.*'), _row_id FROM t", "matches _row_id"),
        ("SELECT t._row_id, u._row_id FROM t NATURAL JOIN u", "NATURAL JOIN"),
        ("SELECT t._row_id FROM t NATURAL JOIN (SELECT * FROM u)", "NATURAL JOIN"),
        ("SELECT _row_id FROM t JOIN u USING (n)", "Ambiguous"),
        ("SELECT _row_id FROM (SELECT * FROM t)", "_row_id"),
        ("SELECT * REPLACE (1 AS _row_id) FROM t", "_row_id"),
        ("SELECT *, _row_id, nothing FROM t", "nothing"),
    ],
)
def test_what_cannot_be_shown_without_them_is_refused(engine: Engine, sql: str, says: str) -> None:
    with pytest.raises(BadSql, match=says):
        engine.query(sql).read_all()


def test_a_pattern_in_columns_takes_no_time_that_grows_with_its_groups(engine: Engine) -> None:
    pattern = "(.*)" * 40
    found = engine.query(f"SELECT COLUMNS('^n{pattern}$'), _row_id FROM t").read_all()
    assert found.column_names == ["n", "_row_id"]
    with pytest.raises(BadSql, match="matches _row_id"):
        engine.query(f"SELECT _row_id, COLUMNS('{pattern}D$') FROM t").read_all()
    for unread in ("(?=_)n", "(n", r"(n)\1"):  # not RE2's: what it shows is not known
        with pytest.raises(BadSql, match="matches _row_id"):
            engine.query(f"SELECT _row_id, COLUMNS('{unread}') FROM t").read_all()


def test_a_place_in_an_error_is_one_in_the_callers_text(engine: Engine) -> None:
    with pytest.raises(BadSql) as plain:
        engine.query("SELECT *, nothing FROM t").read_all()
    with pytest.raises(BadSql) as changed:
        engine.query("SELECT *, _row_id, nothing FROM t").read_all()
    assert (plain.value.line, plain.value.column) == (1, 11)
    assert (changed.value.line, changed.value.column) == (None, None)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT _row_id FROM m",
        "SELECT * FROM m WHERE _version = 1",
        "SELECT *, _row_id FROM m WHERE n > 5",
        "SELECT n FROM t JOIN m USING (n) WHERE m._row_id > 0",
    ],
)
def test_rows_that_cannot_give_a_hidden_column_are_an_error(engine: Engine, sql: str) -> None:
    with pytest.raises(
        Invalid, match=r"does not have _(row_id|version), since it is a merge or a rewrite"
    ):
        engine.query(sql).read_all()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT *, _row_id FROM m WHERE n < 6",
        "SELECT *, _source FROM m",
        "SELECT * EXCLUDE (_row_id) FROM m",
        "SELECT t._row_id FROM t JOIN m USING (n)",
        (
            "SELECT a._row_id FROM m AS a, (SELECT max(n) AS most FROM m) AS b WHERE a.n < 6 "
            "AND a.n "
            "< b.most"
        ),
    ],
)
def test_rows_that_are_not_asked_for_need_give_nothing(engine: Engine, sql: str) -> None:
    assert engine.query(sql).read_all().num_rows > 0


def test_the_names_of_views_are_no_tables(tables: dict[str, TableSnapshot]) -> None:
    both = {"_blockstore_0": tables["t"], "t": tables["u"]}
    with Engine(both) as engine:
        sql = (
            "WITH _blockstore_0_ AS (SELECT 7 AS x) SELECT a._row_id, b.n, x FROM t a, "
            "_blockstore_0 b, _blockstore_0_ WHERE a.n = b.n"
        )
        assert engine.query(sql).read_all().num_rows == 5
