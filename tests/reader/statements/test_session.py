"""Statements through ``blockstore.sql``: versions, jobs, parameters, conflicts, and what stays as
it was."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.reader.errors import BadSql
from blockstore.reader.statements import changing
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.door import opened

MADE = "CREATE TABLE t (k BIGINT PRIMARY KEY, a INTEGER); INSERT INTO t VALUES (1, 10), (2, 20)"


@pytest.fixture
def lake(tmp_path: Path) -> str:
    bs.sql(str(tmp_path), MADE)
    return str(tmp_path)


def rows(lake: str, table: str = "t") -> list[tuple[object, ...]]:
    found = bs.sql(lake, f"SELECT * FROM {table} ORDER BY ALL").to_arrow()
    return [tuple(row.values()) for row in found.to_pylist()]


def test_a_statement_is_one_version_and_says_what_it_did(lake: str) -> None:
    done = bs.sql(lake, "UPDATE t SET a = a + 1 WHERE k = 1", message="one more")
    assert (done.version, done.updated, done.deleted) == (3, 1, 0)
    assert str(done) == "UPDATE: 1 updated, version 3"
    (entry,) = bs.open(f"{lake}/t").log.entries(3, 3)
    assert entry.message == "one more"
    assert "a + 1" in str(entry.parameters["statement"])
    assert bs.sql(lake, "UPDATE t SET a = 0 WHERE false").version is None


def test_a_job_happens_once(lake: str) -> None:
    for table in ("t", "r", "p"):
        if table != "t":
            options = " WITH (row_ids = true)" if table == "r" else ""
            bs.sql(lake, f"CREATE TABLE {table} (k BIGINT, a INTEGER){options}")
            bs.sql(lake, f"INSERT INTO {table} VALUES (1, 10), (2, 20)")
        for number, sql in enumerate(
            (f"UPDATE {table} SET a = a + 1", f"INSERT INTO {table} VALUES (3, 1)")
        ):
            first = bs.sql(lake, sql, job=bs.Job("nightly", number))
            again = bs.sql(lake, sql, job=bs.Job("nightly", number))
            assert not first.already, (table, sql)
            assert again.already, (table, sql)
            assert again.version == first.version, (table, sql)
        assert rows(lake, table) == [(1, 11), (2, 21), (3, 1)]
    with pytest.raises(bs.Invalid, match="one statement"):
        bs.sql(lake, "DELETE FROM t; DELETE FROM r", job=bs.Job("nightly", 9))


@pytest.mark.parametrize(
    "matched", ["UPDATE", "UPDATE SET k = s.k, a = s.a"], ids=["all columns", "named"]
)
def test_a_merge_that_would_give_a_row_another_key_is_refused(lake: str, matched: str) -> None:
    bs.sql(lake, "CREATE TABLE s AS SELECT 1::BIGINT AS k, 11 AS a UNION ALL SELECT 3, 30")
    on = "MERGE INTO t USING s ON t.k + {} = s.k WHEN MATCHED THEN {}"
    with pytest.raises(bs.Invalid, match="another k, which is part of the key"):
        bs.sql(lake, on.format(1, matched))
    assert rows(lake) == [(1, 10), (2, 20)]
    assert bs.sql(lake, on.format(0, matched)).updated == 1
    assert rows(lake) == [(1, 11), (2, 20)]


def test_a_merge_by_chance_is_decided_once_for_a_row_and_refused_without_identity(
    lake: str,
) -> None:
    bs.sql(lake, "CREATE TABLE m (k BIGINT PRIMARY KEY, a INTEGER, b INTEGER)")
    bs.sql(lake, "INSERT INTO m SELECT i, 0, 0 FROM range(1000) r(i)")
    bs.sql(lake, "CREATE TABLE p AS SELECT * FROM m")
    chance = (
        "MERGE INTO {0} USING (SELECT i AS k FROM range(1000) r(i)) s ON {0}.k = s.k "
        "WHEN MATCHED AND random() < 0.5 THEN UPDATE SET a = 1, b = 1 "
        "WHEN MATCHED THEN UPDATE SET a = 2, b = 2"
    )
    assert bs.sql(lake, chance.format("m")).updated == 1000
    both = bs.sql(lake, "SELECT DISTINCT a, b FROM m ORDER BY a").to_arrow().to_pylist()
    assert both == [{"a": 1, "b": 1}, {"a": 2, "b": 2}]
    with pytest.raises(bs.Invalid):
        bs.sql(lake, chance.format("p").partition("WHEN MATCHED THEN")[0])
    assert bs.sql(lake, "SELECT sum(a) AS s FROM p").to_arrow()["s"].to_pylist() == [0]


def test_parameters_are_values_and_others_are_left_out(lake: str) -> None:
    text = "UPDATE t SET a = $n WHERE k = $k; DELETE FROM t WHERE k <> $k"
    bs.sql(lake, text, n=7, k=1, unused="x")
    assert rows(lake) == [(1, 7)]


def test_a_change_meanwhile_plans_again_and_both_are_there(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = bs.open(f"{lake}/t")
    took = changing._Taking.take
    rivals = [{"a": 100}]

    def rival(self: changing._Taking, batch: pa.RecordBatch) -> None:
        took(self, batch)
        if rivals:
            other.update(rivals.pop(), where="k = 1")

    monkeypatch.setattr(changing._Taking, "take", rival)
    done = bs.sql(lake, "UPDATE t SET a = a + 1 RETURNING k, a")
    assert sorted(row["a"] for row in done.to_arrow().to_pylist()) == [21, 101]
    assert rows(lake) == [(1, 101), (2, 21)]


def test_appends_meanwhile_follow_a_statement_on_a_table_without_identity(lake: str) -> None:
    bs.sql(lake, "CREATE TABLE p AS SELECT * FROM t")
    other = bs.open(f"{lake}/p")
    with opened(lake) as session:
        (text,) = session.parse("UPDATE p SET a = 0")
        raced = []

        def began(stop: object) -> None:
            if not raced:
                raced.append(other.append(pa.table({"k": [3], "a": pa.array([30], pa.int32())})))

        session.run(text, Doing(began=began))
    assert rows(lake, "p") in ([(1, 0), (2, 0), (3, 0)], [(1, 0), (2, 0), (3, 30)])


def test_blocks_without_affected_rows_stay(lake: str) -> None:
    bs.sql(lake, "CREATE TABLE p (k BIGINT, a INTEGER)")
    for number in range(3):
        bs.sql(lake, f"INSERT INTO p VALUES ({number}, 0), ({number + 10}, 0)")
    before = {block.ulid for block in bs.open(f"{lake}/p").log.state.blocks}
    explained = bs.sql(lake, "EXPLAIN UPDATE p SET a = 1 WHERE k = 11").to_arrow().to_pylist()
    facts = {one["what"]: one["number"] for one in explained}
    assert (facts["rows to update"], facts["blocks to write again"]) == (1, 1)
    assert {block.ulid for block in bs.open(f"{lake}/p").log.state.blocks} == before
    bs.sql(lake, "UPDATE p SET a = 1 WHERE k = 11")
    after = {block.ulid for block in bs.open(f"{lake}/p").log.state.blocks}
    assert len(before & after) == 2
    assert rows(lake, "p") == [(0, 0), (1, 0), (2, 0), (10, 0), (11, 1), (12, 0)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1;\n  SELECT ?k FROM p",
        "EXPLAIN\nSELECT ?k FROM p",
        "EXPLAIN UPDATE p SET ?k = 1",
        "EXPLAIN ANALYZE DELETE FROM p\n WHERE ?k = 1",
        "SELECT 1; EXPLAIN TRUNCATE p ?k",
        "SELECT 1; EXPLAIN INSERT INTO p SELECT ?k FROM p",
        "SELECT 1; EXPLAIN SELECT a FROM p\n ORDER BY ?k",
    ],
)
def test_an_error_is_at_its_place_in_the_complete_text(lake: str, sql: str) -> None:
    """A question mark marks the place."""
    bs.sql(lake, "CREATE TABLE p (a INTEGER)")
    before, _, after = sql.partition("?")
    lines = before.split("\n")
    with pytest.raises(BadSql) as found:
        bs.sql(lake, before + after)
    assert (found.value.line, found.value.column) == (len(lines), len(lines[-1]) + 1)
    assert f"at line {len(lines)}, column {len(lines[-1]) + 1}" in str(found.value)


@pytest.mark.parametrize(
    "condition", ["random() < 0.5", "k IN (SELECT k FROM p ORDER BY random() LIMIT 250)"]
)
def test_a_condition_that_is_a_matter_of_chance_loses_no_row(lake: str, condition: str) -> None:
    bs.sql(lake, "CREATE TABLE p AS SELECT i AS k, 0 AS a FROM range(500) r(i)")
    with pytest.raises(bs.Invalid, match=r"decides otherwise|matches"):
        bs.sql(lake, f"UPDATE p SET a = 1 WHERE {condition}")
    assert rows(lake, "p") == [(number, 0) for number in range(500)]


def test_a_row_that_several_rows_match_is_refused(lake: str) -> None:
    bs.sql(lake, "CREATE TABLE p AS SELECT * FROM t")
    twice = "SELECT * FROM (VALUES (1, 5), (1, 6)) x(i, n)"
    for table in ("t", "p"):
        with pytest.raises(bs.Invalid):
            bs.sql(lake, f"UPDATE {table} SET a = n FROM ({twice}) x WHERE {table}.k = x.i")
        assert rows(lake, table) == [(1, 10), (2, 20)]


def test_earlier_versions_are_read_by_at(lake: str) -> None:
    bs.sql(lake, "DELETE FROM t WHERE k = 1")
    bs.sql(lake, "INSERT INTO t SELECT * FROM t AT (VERSION => 2) WHERE k = 1")
    assert rows(lake) == [(1, 10), (2, 20)]
    both = bs.sql(
        lake, "SELECT (SELECT count(*) FROM t AT (VERSION => 3)) AS was, count(*) AS n FROM t"
    )
    assert both.to_arrow().to_pylist() == [{"was": 1, "n": 2}]
    bs.sql(lake, "CALL tag('t', 'one', 3)")
    tagged = "SELECT count(*) AS n FROM t AT (VERSION => 'one')"
    assert bs.sql(lake, tagged).to_arrow().to_pylist() == [{"n": 1}]
    with pytest.raises(bs.NotFound, match="no tag 'two'"):
        bs.sql(lake, "SELECT * FROM t AT (VERSION => 'two')")
    with pytest.raises(bs.Invalid, match="not a constant"):
        bs.sql(lake, "SELECT * FROM t AT (TIMESTAMP => now())")


def test_a_version_and_a_time_of_one_number_are_two(lake: str) -> None:
    early = "t AT (TIMESTAMP => '1970-01-01T00:00:00.002Z')"
    with pytest.raises(bs.NotFound):
        bs.sql(lake, f"SELECT (SELECT count(*) FROM t AT (VERSION => 2)), count(*) FROM {early}")


def test_what_a_new_table_refuses_leaves_the_former_one(lake: str) -> None:
    with pytest.raises(bs.Invalid, match="'time' is null in row 1 "):
        bs.sql(
            lake,
            "CREATE OR REPLACE TABLE t WITH (time_column = time) AS "
            "SELECT * FROM (VALUES (TIMESTAMP '2020-01-01'), (NULL)) r(time)",
        )
    assert rows(lake) == [(1, 10), (2, 20)]


def test_tables_need_a_lake_and_names_are_compared_without_case(lake: str) -> None:
    with pytest.raises(bs.Invalid, match="needs a lake"):
        bs.sql(f"{lake}/t", "CREATE TABLE u (a INTEGER)")
    with pytest.raises(bs.AlreadyExists, match="table t exists"):
        bs.sql(lake, "CREATE TABLE T (a INTEGER)")
    bs.sql(f"{lake}/t", "UPDATE T SET A = 5 WHERE K = 1")
    assert rows(lake) == [(1, 5), (2, 20)]


def test_versions_are_tagged_restored_and_reverted_by_call(lake: str) -> None:
    bs.sql(lake, "CALL tag('t', 'before'); DELETE FROM t WHERE k = 1")
    assert bs.open(f"{lake}/t").log.state.tags["before"] == 2
    bs.sql(lake, "CALL restore('T', 'before')")
    assert rows(lake) == [(1, 10), (2, 20)]
    bs.sql(lake, "UPDATE t SET a = 0")
    version = bs.open(f"{lake}/t").log.state.version
    done = bs.sql(lake, f"CALL revert('t', {version})")
    assert done.version == version + 1
    assert rows(lake) == [(1, 10), (2, 20)]
    assert bs.sql(lake, "CALL untag('t', 'before')").version == version + 2
    for wrong in ("nothing('t')", "tag('t')", "tag('t', 1 + 2)", "restore()", "tag('t', 3)"):
        with pytest.raises(bs.Invalid):
            bs.sql(lake, f"CALL {wrong}")


def test_definitions_say_what_sql_says(lake: str) -> None:
    bs.sql(
        lake,
        "CREATE TABLE d (day DATE COMMENT 'of the visit', n INTEGER DEFAULT 2 + 3 CHECK (n > 0)) "
        "WITH (time_column = day, row_ids = true, row_history = '30d')",
    )
    table = bs.open(f"{lake}/d")
    described = table.definition.schema.field("day").metadata
    assert table.definition.time_column == "day"
    assert table.definition.properties.row_history_s == 30 * 86_400
    metadata = table.definition.schema.field("n").metadata
    assert metadata[b"blockstore.default"] == b"5"
    assert described[b"blockstore.description"] == b"of the visit"
    bs.sql(lake, "COMMENT ON COLUMN d.n IS 'how many'; ALTER TABLE d SET (row_history = '10d')")
    assert bs.open(f"{lake}/d").definition.properties.row_history_s == 10 * 86_400
    bs.sql(
        lake,
        "CREATE TABLE c (s VARCHAR CHECK (s LIKE 'a%') NOT NULL, n INTEGER CHECK (n IN (1, 2)), "
        "CHECK (n > 0))",
    )
    bs.sql(lake, "INSERT INTO c VALUES ('ab', 2)")
    for values in ("('b', 2)", "('a', 3)", "(NULL, 1)"):
        with pytest.raises(bs.Invalid):
            bs.sql(lake, f"INSERT INTO c VALUES {values}")
    with pytest.raises(bs.Invalid, match="about 2 columns"):
        bs.sql(lake, "CREATE TABLE u (a INTEGER, b INTEGER CHECK (b > a))")
    with pytest.raises(bs.Invalid, match="UNIQUE"):
        bs.sql(lake, "CREATE TABLE u (a INTEGER UNIQUE)")
    for generated in ("b AS (1)", "b INTEGER GENERATED ALWAYS AS (a + 1)"):
        with pytest.raises(bs.Invalid, match="generated"):
            bs.sql(lake, f"CREATE TABLE u (a INTEGER, {generated})")
    for values in ("ENUM('a', 'b')", "ENUM('a', 'b')[]"):
        with pytest.raises(bs.Invalid, match="is an ENUM"):
            bs.sql(lake, f"CREATE TABLE u (a INTEGER, e {values})")
    for change, said in (
        ("ALTER n TYPE BIGINT USING n + 1", "add a column and UPDATE it"),
        ("ADD COLUMN s.k INTEGER", "field of a struct"),
    ):
        with pytest.raises(bs.Invalid, match=said):
            bs.sql(lake, f"ALTER TABLE d {change}")


@pytest.mark.parametrize(
    "text",
    ["ALTER a DROP NOT NULL", "ALTER a DROP DEFAULT", "ALTER k SET NOT NULL", "RENAME a TO a"],
)
def test_what_a_table_is_already_changes_nothing(lake: str, text: str) -> None:
    version = bs.open(f"{lake}/t").poll()
    assert bs.sql(lake, f"ALTER TABLE t {text}").version is None
    assert bs.open(f"{lake}/t").poll() == version


def test_a_dropped_table_is_gone_comes_back_and_makes_room_for_another(lake: str) -> None:
    assert str(bs.sql(lake, "DROP TABLE t")) == "DROP: version 3"
    with pytest.raises(bs.NotFound):
        rows(lake)
    assert bs.sql(lake, "DROP TABLE IF EXISTS t").version is None
    with pytest.raises(bs.NotFound):
        bs.sql(lake, "DROP TABLE t")
    assert bs.sql(lake, "CALL undrop('t')").version == 4
    assert rows(lake) == [(1, 10), (2, 20)]
    with pytest.raises(bs.Conflict, match="nothing to undrop"):
        bs.sql(lake, "CALL undrop('t')")
    bs.sql(lake, "CREATE OR REPLACE TABLE t (k BIGINT PRIMARY KEY, other VARCHAR)")
    assert rows(lake) == []
    bs.sql(
        lake, "CREATE OR REPLACE TABLE t AS SELECT 7 AS seven; CREATE OR REPLACE TABLE u (a INT)"
    )
    assert (rows(lake), rows(lake, "u")) == ([(7,)], [])


@pytest.mark.parametrize("sql", ["UNDROP TABLE t", 'undrop TABLE "t"', "UNDROP t"])
def test_undrop_is_a_statement_too(lake: str, sql: str) -> None:
    bs.sql(lake, f"DROP TABLE t; {sql}; INSERT INTO t VALUES (3, 30)")
    assert rows(lake) == [(1, 10), (2, 20), (3, 30)]
    with pytest.raises(bs.Invalid, match="line 1, column 16"):
        bs.sql(lake, "UNDROP TABLE t again")


def test_rules_name_columns_in_any_case(tmp_path: Path) -> None:
    lake = str(tmp_path)
    bs.sql(
        lake,
        "CREATE TABLE t (Abc INT CHECK (aBC > 0 AND ABC < 9), len INT, "
        "CHECK (LEN > 1), PRIMARY KEY (ABC))",
    )
    bs.sql(lake, "ALTER TABLE t ADD CHECK (Len < 7); INSERT INTO t VALUES (3, 3)")
    for wrong in ("(0, 3)", "(9, 3)", "(4, 1)", "(4, 7)"):
        with pytest.raises(bs.Invalid, match="check"):
            bs.sql(lake, f"INSERT INTO t VALUES {wrong}")
    with pytest.raises(bs.RowConflict):
        bs.sql(lake, "INSERT INTO t VALUES (3, 4)")
    with pytest.raises(bs.Invalid, match="about 2 columns"):
        bs.sql(lake, "ALTER TABLE t ADD CHECK (LEN < abc)")


def test_a_check_is_added_to_a_column_that_has_rows(lake: str) -> None:
    bs.sql(lake, "ALTER TABLE t ADD CONSTRAINT positive CHECK (A > 0)")
    bs.sql(lake, "ALTER TABLE t ADD CHECK (a < 100 AND a <> 50)")
    for wrong in (-1, 50, 100):
        with pytest.raises(bs.Invalid, match="check"):
            bs.sql(lake, f"INSERT INTO t VALUES (3, {wrong})")
    bs.sql(lake, "INSERT INTO t VALUES (3, 99)")
    with pytest.raises(bs.Invalid, match="20"):
        bs.sql(lake, "ALTER TABLE t ADD CHECK (a <> 20)")
    assert rows(lake) == [(1, 10), (2, 20), (3, 99)]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("ALTER TABLE t ADD CHECK (k < a)", "is about 2 columns"),
        ("ALTER TABLE t ADD CHECK (nope < 5)", "nope"),
        ("ALTER TABLE t ADD CHECK (a < 5) NOT VALID", "one change in each ALTER TABLE|syntax"),
        ("ALTER TABLE t ADD UNIQUE (a)", "UNIQUE is not a rule"),
        ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t (k)", "FOREIGN KEY is not a rule"),
        ("ALTER TABLE t ADD CONSTRAINT c UNIQUE (a)", "UNIQUE is not a rule"),
        ("ALTER TABLE t ADD COLUMN b INT DEFAULT 5 NOT NULL", "existing rows have no value"),
        ("CREATE TABLE c (a BIGINT REFERENCES t (k))", "REFERENCES is not a rule"),
        ("CREATE TABLE c (a BIGINT, FOREIGN KEY (a) REFERENCES t)", "REFERENCES is not a rule"),
    ],
)
def test_a_rule_that_no_table_promises_is_refused(lake: str, sql: str, says: str) -> None:
    before = bs.open(f"{lake}/t").definition
    with pytest.raises(bs.Invalid, match=says):
        bs.sql(lake, sql)
    assert bs.open(f"{lake}/t").definition == before


@pytest.mark.parametrize("text", ["DROP VIEW t", "DROP TABLE t, u", "CALL undrop('t', 1)"])
def test_other_forms_of_a_drop_are_refused(lake: str, text: str) -> None:
    with pytest.raises(bs.Invalid):
        bs.sql(lake, text)
    assert rows(lake) == [(1, 10), (2, 20)]


def test_rows_of_a_table_without_identity_get_one_in_another_table(tmp_path: Path) -> None:
    lake = str(tmp_path)
    bs.sql(lake, "CREATE TABLE plain (time TIMESTAMP, n INTEGER) WITH (time_column = time)")
    for n in range(10):
        bs.sql(lake, f"INSERT INTO plain VALUES ('2020-01-01 00:00:0{n}', {n})")
    bs.sql(lake, "CALL compact('plain'); DELETE FROM plain WHERE n = 3")
    for wrong, said in (
        ("SET (row_ids = true)", "said when a table is created"),
        ("SET (key = 'n')", "said when a table is created"),
        ("ADD PRIMARY KEY (n)", "from its creation on"),
        ("ADD CONSTRAINT p PRIMARY KEY (n)", "from its creation on"),
    ):
        with pytest.raises(bs.Invalid, match=said):
            bs.sql(lake, f"ALTER TABLE plain {wrong}")
    with pytest.raises(bs.Invalid, match="said when a table is created"):
        bs.open(f"{lake}/plain").alter(properties={"row_ids": True})
    bs.sql(lake, "CREATE TABLE ids WITH (row_ids = true) AS SELECT * FROM plain ORDER BY n DESC")
    bs.sql(lake, "CREATE TABLE keyed (n INTEGER PRIMARY KEY, time TIMESTAMP)")
    bs.sql(lake, "INSERT INTO keyed BY NAME SELECT * FROM plain; DROP TABLE plain")
    found = bs.sql(lake, "SELECT _row_id, n FROM ids ORDER BY _row_id").to_arrow().to_pylist()
    assert [tuple(row.values()) for row in found] == list(enumerate([9, 8, 7, 6, 5, 4, 2, 1, 0]))
    assert bs.sql(lake, "UPDATE ids SET n = 90 WHERE n = 9").updated == 1
    assert bs.sql(lake, "SELECT count(*) AS n FROM keyed").to_arrow()["n"].to_pylist() == [9]


def test_a_query_that_fails_late_leaves_no_table_and_replaces_none(lake: str) -> None:
    wrong = "CAST(error(CASE WHEN i > 900000 THEN 'late' END) AS INTEGER)"
    late = f"SELECT i, {wrong} AS e FROM range(1000000) r(i)"
    with pytest.raises(bs.BlockstoreError, match="late"):
        bs.sql(lake, f"CREATE TABLE made AS {late}")
    with pytest.raises(bs.NotFound):
        bs.sql(lake, "SELECT * FROM made")
    with pytest.raises(bs.BlockstoreError, match="late"):
        bs.sql(lake, f"CREATE OR REPLACE TABLE t AS {late}")
    assert rows(lake) == [(1, 10), (2, 20)]
    done = bs.sql(lake, "CREATE OR REPLACE TABLE t AS SELECT i FROM range(300000) r(i)")
    assert (done.inserted, len(rows(lake))) == (300_000, 300_000)
    none = bs.sql(lake, "CREATE TABLE made AS SELECT i FROM range(9) r(i) WHERE i > 9")
    assert (none.inserted, rows(lake, "made")) == (0, [])


def test_a_session_goes_on_where_another_process_drops_or_replaces_its_table(lake: str) -> None:
    with opened(lake) as session:

        def run(sql: str) -> list[tuple[object, ...]]:
            outcome = session.run(session.parse(sql)[0], Doing())
            found = outcome.to_arrow().to_pylist() if outcome.rows is not None else []
            return [tuple(row.values()) for row in found]

        assert run("SELECT * FROM t WHERE k = 1") == [(1, 10)]
        bs.sql(lake, "DROP TABLE t")
        with pytest.raises(bs.TableDropped):
            run("INSERT INTO t VALUES (3, 30)")
        run("DROP TABLE IF EXISTS t")
        run("ALTER TABLE IF EXISTS t ADD COLUMN b INTEGER")
        run("CREATE TABLE IF NOT EXISTS t (b INTEGER)")
        assert run("SELECT * FROM t") == []
        bs.sql(lake, "DROP TABLE t; CREATE TABLE t (s VARCHAR PRIMARY KEY, n INTEGER)")
        run("INSERT INTO t VALUES ('x', 1)")
        bs.sql(lake, "DROP TABLE t; CREATE TABLE t (d DATE); INSERT INTO t VALUES ('2026-01-01')")
        assert len(run("SELECT d FROM t")) == 1
        bs.sql(lake, "DROP TABLE t")
        run("CREATE TABLE t (last INTEGER)")
        run("UPDATE t SET last = 1")
