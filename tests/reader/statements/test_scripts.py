"""Random scripts of statements leave in Blockstore what they leave in DuckDB, on tables of every
kind and with merges in between."""

from __future__ import annotations

import tempfile

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.care.verify import verify
from blockstore.errors import BlockstoreError
from blockstore.reader.statements.door import opened
from blockstore.world import World
from tests.reader.statements.logic import KINDS, Both, Record
from tests.support.examples import few

small = st.integers(0, 12)
row = st.tuples(small, st.one_of(st.none(), small), st.sampled_from(["'x'", "'y'", "NULL"]))


def values(rows: list[tuple[int, int | None, str]]) -> str:
    return ", ".join(f"({k}, {'NULL' if a is None else a}, {b})" for k, a, b in rows)


inserts = st.lists(row, min_size=1, max_size=4).map(
    lambda rows: f"INSERT INTO t VALUES {values(rows)}"
)
updates = st.one_of(
    small.map(lambda n: f"UPDATE t SET a = a + 1 WHERE k % 3 = {n} % 3"),
    small.map(lambda n: f"UPDATE t SET b = NULL, a = {n} WHERE a > {n} OR a IS NULL"),
    small.map(lambda n: f"UPDATE t SET a = s.a FROM s WHERE t.k = s.k AND s.a > {n}"),
    small.map(lambda n: f"UPDATE t SET a = (SELECT count(*) FROM t) WHERE k > {n}"),
)
deletes = st.one_of(
    small.map(lambda n: f"DELETE FROM t WHERE a < {n}"),
    small.map(lambda n: f"DELETE FROM t USING s WHERE t.a = s.a AND s.k > {n}"),
    small.map(lambda n: f"DELETE FROM t WHERE k NOT IN (SELECT k FROM s WHERE k > {n}) AND k < 6"),
)
merges = st.one_of(
    small.map(
        lambda n: (
            "MERGE INTO t USING s ON t.k = s.k "
            f"WHEN MATCHED AND s.a > {n} THEN DELETE WHEN MATCHED THEN UPDATE SET a = s.a "
            "WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.a, 'new')"
        )
    ),
    small.map(
        lambda n: (
            f"MERGE INTO t USING (SELECT * FROM s WHERE k > {n}) AS s ON t.k = s.k "
            "WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED AND s.a IS NOT NULL THEN INSERT (k) "
            "VALUES (s.k) WHEN NOT MATCHED BY SOURCE AND t.a > 3 THEN UPDATE SET b = 'alone'"
        )
    ),
)
upserts = st.lists(row, min_size=1, max_size=3, unique_by=lambda one: one[0]).flatmap(
    lambda rows: st.sampled_from(
        [
            f"INSERT INTO t VALUES {values(rows)} ON CONFLICT DO NOTHING",
            f"INSERT INTO t VALUES {values(rows)} ON CONFLICT DO UPDATE SET a = excluded.a",
            f"INSERT OR REPLACE INTO t VALUES {values(rows)}",
        ]
    )
)
statements = st.one_of(inserts, updates, deletes, merges, st.just("compact"))
scripts = {
    "key": st.lists(st.one_of(statements, upserts), min_size=3, max_size=6),
    "ids": st.lists(statements, min_size=3, max_size=6),
    "plain": st.lists(statements, min_size=3, max_size=6),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_random_scripts_leave_what_they_leave_in_duckdb(kind: str) -> None:
    @settings(max_examples=few(6), deadline=None, suppress_health_check=list(HealthCheck))
    @given(script=scripts[kind], source=st.lists(row, max_size=5, unique_by=lambda one: one[0]))
    def check(script: list[str], source: list[tuple[int, int | None, str]]) -> None:
        with tempfile.TemporaryDirectory() as folder, opened(folder) as session:
            both = Both(session, kind)
            for name in ("t", "s"):
                sql = f"CREATE TABLE {name} (k BIGINT PRIMARY KEY, a INTEGER, b VARCHAR)"
                both.run(Record("statement ok", sql, 0))
            if source:
                both.run(Record("statement ok", f"INSERT INTO s VALUES {values(source)}", 0))
            for sql in script:
                if sql == "compact":
                    both.compact()
                else:
                    _same_end(both, sql)
                both.compare((script, source, sql))

    check()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_random_transactions_leave_what_their_statements_leave_in_duckdb(kind: str) -> None:
    """All of one, or nothing where one of its statements fails."""

    @settings(max_examples=few(5), deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        scripts=st.lists(scripts[kind], min_size=1, max_size=2),
        source=st.lists(row, max_size=5, unique_by=lambda one: one[0]),
    )
    def check(scripts: list[list[str]], source: list[tuple[int, int | None, str]]) -> None:
        with tempfile.TemporaryDirectory() as folder, opened(folder) as session:
            both = Both(session, kind)
            for name in ("t", "s"):
                sql = f"CREATE TABLE {name} (k BIGINT PRIMARY KEY, a INTEGER, b VARCHAR)"
                both.run(Record("statement ok", sql, 0))
            if source:
                for name in ("t", "s"):
                    sql = f"INSERT INTO {name} VALUES {values(source)}"
                    both.run(Record("statement ok", sql, 0))
            for script in scripts:
                texts = [sql for sql in script if sql != "compact"]
                both.transaction("t", texts)
                both.compare((scripts, source))
                if "compact" in script:
                    both.compact()
            report = verify(session.tables.open("t").bucket, World.real(), deep=True)
            assert not report.findings, report.findings

    check()


def _same_end(both: Both, sql: str) -> None:
    """Both carry the statement out, or both refuse it."""
    refused = []
    for run in (both.do, both.duck):
        try:
            run(sql)
        except (BlockstoreError, duckdb.Error):
            refused.append(run)
    assert len(refused) in (0, 2), (sql, refused)
