"""The escapes of ``tests/reader/query/test_escapes.py`` again, in every clause of a statement that
writes: of a caller who may write one table, and knows where the files of another one are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.cli.main import run as verb
from blockstore.errors import BlockstoreError
from blockstore.reader.http.tokens import Scope, Token, hashed
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.door import opened
from blockstore.reader.statements.session import Session
from blockstore.reader.statements.transaction import Block, carry_out, grouped
from tests.reader.doors.three import three
from tests.reader.http.gateways import serving, settings
from tests.reader.query.test_escapes import CALLS, FILES, READERS, SECRET

SOURCES = [
    *READERS,
    "'{p}'",
    '"{p}"',
    "'{d}/*.csv'",
    "hidden",
    '"HIDDEN"',
    "main.hidden",
    "memory.main.hidden",
    "hidden.history",
    "hidden.changes(after => 0)",
    "hidden.blocks",
    "hidden AT (VERSION => 2)",
    "information_schema.tables",
    "sqlite_master",
    "query_table(['hidden'])",
    '"t/block"',
    '"blockstore:history:0"',
    '"blockstore_twin"',
]
CLAUSES = [
    "INSERT INTO t SELECT 'x', 1 FROM {f}",
    "INSERT INTO t BY NAME SELECT 'x' AS a FROM {f}",
    "WITH w AS (FROM {f}) INSERT INTO t SELECT 'x', 1 FROM w",
    "INSERT INTO t VALUES ((SELECT max(a) FROM {f}), 1)",
    "INSERT INTO t VALUES ('q', 1) RETURNING (SELECT count(*) FROM {f})",
    "INSERT INTO k VALUES ('open', 1) ON CONFLICT DO UPDATE SET n = (SELECT count(*) FROM {f})",
    "INSERT INTO k VALUES ('open', 1) ON CONFLICT DO UPDATE SET n = 2 WHERE EXISTS (FROM {f})",
    "UPDATE t SET n = (SELECT count(*) FROM {f})",
    "UPDATE t SET a = 'y' FROM {f} AS x WHERE true",
    "UPDATE t SET n = n WHERE EXISTS (FROM {f})",
    "UPDATE t SET n = n RETURNING (SELECT max(a) FROM {f})",
    "DELETE FROM t WHERE EXISTS (FROM {f})",
    "DELETE FROM t USING {f} AS x WHERE true",
    "DELETE FROM t RETURNING (SELECT max(a) FROM {f})",
    "MERGE INTO t USING {f} AS s ON true WHEN MATCHED THEN UPDATE SET a = 'z'",
    "MERGE INTO t USING (SELECT 1) AS s ON EXISTS (FROM {f}) WHEN MATCHED THEN DELETE",
    "MERGE INTO t USING (SELECT 1) AS s ON true WHEN MATCHED AND EXISTS (FROM {f}) THEN DELETE",
    "MERGE INTO t USING (SELECT 1) AS s ON true WHEN MATCHED THEN ERROR (SELECT max(a) FROM {f})",
    (
        "MERGE INTO t USING (SELECT 1) AS s ON false WHEN NOT MATCHED THEN INSERT VALUES "
        "((SELECT max(a) FROM {f}), 1)"
    ),
    "BEGIN; UPDATE t SET n = (SELECT count(*) FROM {f}); COMMIT",
    "EXPLAIN UPDATE t SET n = (SELECT count(*) FROM {f})",
    "EXPLAIN ANALYZE SELECT * FROM {f}",
    "CREATE TABLE made AS SELECT * FROM {f}",
    "CREATE TABLE made (a VARCHAR DEFAULT (SELECT max(a) FROM {f}))",
    "CREATE TABLE made (a VARCHAR CHECK (a <> (SELECT max(a) FROM {f})))",
    "CREATE TABLE made (a INT, b VARCHAR GENERATED ALWAYS AS ((SELECT max(a) FROM {f})))",
    "ALTER TABLE t ADD COLUMN more VARCHAR DEFAULT (SELECT max(a) FROM {f})",
    "ALTER TABLE t ALTER COLUMN a SET DEFAULT (SELECT max(a) FROM {f})",
    "ALTER TABLE t ALTER COLUMN n TYPE BIGINT USING (SELECT count(*) FROM {f})",
    "INSERT INTO {f} VALUES ('x', 1)",
    "UPDATE {f} SET a = 'x'",
    "MERGE INTO {f} AS h USING t ON true WHEN MATCHED THEN DELETE",
    "TRUNCATE {f}",
    "DROP TABLE {f}",
    "COMMENT ON COLUMN {f}.a IS 'x'",
]
VALUES = [
    "UPDATE t SET a = {c}",
    "INSERT INTO t VALUES ({c}, 1)",
    "DELETE FROM t WHERE {c} IS NOT NULL",
    "INSERT INTO t VALUES ('x', 1) RETURNING {c}",
    "CREATE TABLE made (a VARCHAR DEFAULT ({c}))",
    "ALTER TABLE t ALTER COLUMN a SET DEFAULT ({c})",
    "MERGE INTO t USING (SELECT 1) AS s ON true WHEN MATCHED THEN UPDATE SET a = {c}",
    "UPDATE t SET a = list_transform(['x'], lambda x: {c})[1]",
]
TEXTS = [
    "UPDATE t SET a = 'x'; COPY t TO '{d}/out.csv'",
    "UPDATE t SET a = 'x';;; COPY t TO '{d}/out.csv'",
    "UPDATE t SET a = 'x\\'; COPY t TO '{d}/out.csv' --'",
    "UPDATE t SET a = 'x' --\r; COPY t TO '{d}/out.csv'",
    "UPDATE t SET a = 'x' # ; COPY t TO '{d}/out.csv'",
    "UPDATE t SET a = r'\\'; COPY t TO '{d}/out.csv' --'",
    "UPDATE t SET a = `x; COPY t TO '{d}/out.csv'`",
    "UPDATE t SET a = 'x'\uff1b COPY t TO '{d}/out.csv'",
    "UPDATE t SET a = \u2018x\u2019; COPY t TO '{d}/out.csv'",
    'UPDATE t SET a = """; COPY t TO \'{d}/out.csv\' --"',
    "WITH w AS (DELETE FROM k RETURNING *) INSERT INTO t SELECT * FROM w",
    "UPDATE t SET n = (SELECT count(*) FROM (DELETE FROM hidden RETURNING *))",
    "INSERT INTO t TABLE hidden",
    "INSERT INTO t PIVOT hidden ON n USING max(a)",
    "INSERT INTO t SELECT column_name, 1 FROM (DESCRIBE hidden)",
    "INSERT INTO t SELECT t.* FROM t POSITIONAL JOIN hidden",
    "UPDATE t SET a = list_aggregate(['x'], 'getenv')",
    "UPDATE t SET a = ('HOME').getenv()",
    "CREATE TABLE made (a INT); COPY t TO '{d}/out.csv'",
    'CREATE TABLE "../made" (a INT)',
    'CREATE TABLE "x/made" (a INT)',
    'CREATE TABLE "{d}/made" (a INT)',
    'CREATE TABLE "made?durable=false" (a INT)',
    'CREATE TABLE ".made" (a INT)',
    "DELETE FROM t LIMIT 1",
    "PREPARE p AS DELETE FROM t",
    "EXECUTE p",
    "SET VARIABLE x = (SELECT max(a) FROM hidden)",
]
HARMLESS = [
    "UPDATE t SET a = $$x; COPY t TO '{d}/out.csv'$$",
    "UPDATE t SET a = $q$ $$ ; COPY t TO '{d}/out.csv' $$ $q$",
    "UPDATE t SET a = E'x\\'; COPY t TO \\'{d}/out.csv\\''",
    "UPDATE t SET a = 'a' /* /* nested */ ; COPY t TO '{d}/out.csv' -- */",
    "UPDATE t SET a = '''; COPY t TO ''{d}/out.csv'",
]


def attempts() -> Iterator[str]:
    """Each source in three clauses, and each clause with some sources."""
    clauses = cycle(CLAUSES)
    for source in SOURCES:
        yield from (next(clauses).replace("{f}", source) for _ in range(3))
    for clause in CLAUSES:
        yield from (clause.replace("{f}", one) for one in ("read_text('{c}')", "'{p}'", "hidden"))
    values = cycle(VALUES)
    for call in CALLS:
        yield from (next(values).replace("{c}", call) for _ in range(2))
    yield from (f"INSERT INTO t SELECT 'x', 1 FROM ({one})" for one in FILES)
    yield from TEXTS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    schema = pa.schema([("a", pa.string()), ("n", pa.int64())])
    for name, value in (("t", "open"), ("hidden", SECRET), ("k", "open")):
        url, rows = f"{tmp_path}/lake/{name}?durable=false", pa.table({"a": [value], "n": [1]})
        if name == "k":
            bs.create(url, schema=schema, key=["a"]).upsert(rows)
        else:
            bs.create(url, schema=schema, row_ids=True).append(rows)
    (tmp_path / "loose.csv").write_text(f"a,n\n{SECRET},1\n")
    return tmp_path


def filled_in(folder: Path, sql: str) -> str:
    parquet = next(folder.glob("lake/hidden/*/chunks/*.parquet"))
    whole = sql.replace("{p}", str(parquet)).replace("{c}", f"{folder}/loose.csv")
    return whole.replace("{d}", str(folder))


def run(session: Session, sql: str) -> list[object]:
    doing = Doing(allowed={"t", "k"})
    found: list[object] = []
    for step in grouped(session.parse(sql)):
        each = (
            carry_out(session, step, doing)
            if isinstance(step, Block)
            else [session.run(step, doing)]
        )
        found += [one.to_arrow().to_pylist() if one.rows is not None else one for one in each]
    return found


def versions(folder: Path) -> dict[str, int]:
    return {name: bs.open(f"{folder}/lake/{name}").poll() for name in ("t", "hidden", "k")}


def outside(folder: Path) -> list[str]:
    """What is where no statement writes."""
    return sorted(one.name for place in (folder, folder / "lake") for one in place.iterdir())


def test_no_clause_of_a_statement_gets_past_the_tables(folder: Path) -> None:
    before = versions(folder), outside(folder)
    came_through, said = [], []
    with opened(f"{folder}/lake?durable=false") as session:
        for attempt in attempts():
            sql = filled_in(folder, attempt)
            try:
                came_through.append((sql, run(session, sql)))
            except BlockstoreError as error:
                said.append(str(error))
        # The first statement of a text stays, and what comes after it is refused before that.
        assert came_through == []
        assert len(said) > 350
        assert [one for one in said if SECRET in one or "\n" in one or not one] == []
        assert (versions(folder), outside(folder)) == before
        for harmless in HARMLESS:
            run(session, filled_in(folder, harmless))
            assert outside(folder) == before[1]
            run(session, "SELECT count(*) FROM t")


def test_the_query_of_a_copy_gets_past_the_tables_no_more(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{folder}/lake?durable=false"
    copies = [f"COPY (FROM {one}) TO '{{d}}/out.csv'" for one in SOURCES]
    copies += [f"COPY ({one}) TO '{{d}}/out.csv'" for one in FILES]
    copies += [f"COPY (SELECT {one}) TO '{{d}}/out.csv'" for one in CALLS]
    # All tables are those of the person who types it.
    copies = [one for one in copies if "hidden" not in one.lower()]
    before = versions(folder), outside(folder)
    for copy in copies:
        assert verb(["sql", url, filled_in(folder, copy)]) == 1, copy
        said = capsys.readouterr()
        assert SECRET not in said.out + said.err
    assert len(copies) > 100
    assert (versions(folder), outside(folder)) == before


def test_no_statement_gets_past_its_token_at_the_other_doors(folder: Path) -> None:
    token = Token(
        name="some",
        sha256=hashed("bsk_some"),
        scopes=frozenset({Scope.READ, Scope.WRITE, Scope.DDL}),
        tables=frozenset({"t", "k"}),
    )
    asked = settings(f"{folder}/lake?durable=false", folder, tokens=(token,))
    before = versions(folder)
    some = [one.replace("{f}", "hidden") for one in CLAUSES] + TEXTS
    some += [one.replace("{f}", "read_text('{c}')") for one in CLAUSES]
    with (
        three(asked, folder / "audit.jsonl") as doors,
        doors.client("bsk_some") as flight,
        doors.raw("bsk_some") as postgres,
    ):
        for attempt in some:
            sql = filled_in(folder, attempt)
            with pytest.raises(pa.ArrowException) as failed:
                flight.update(sql)
            assert SECRET not in str(failed.value)
            # A text may have several statements there: what was changed goes with the rest.
            answers = postgres.ask(f"BEGIN; {sql}; ROLLBACK")
            # A setting of the session is text, whatever it says.
            assert any(kind == "E" for kind, _ in answers) or sql.startswith("SET "), sql
            assert not any(SECRET.encode() in body for _, body in answers), sql
            postgres.ask("ROLLBACK")
            if not attempt.startswith(
                ("BEGIN", "SET ", "UPDATE t SET a = ", "CREATE TABLE made (a INT);")
            ):
                answers = postgres.ask(sql)
                assert any(kind == "E" for kind, _ in answers), sql
    assert versions(folder) == before
    assert not (folder / "out.csv").exists()


@pytest.mark.parametrize("scopes", [{"read", "write", "ddl"}, {"write"}, {"read"}, {"ddl"}])
def test_no_statement_of_a_request_gets_past_its_token(folder: Path, scopes: set[str]) -> None:
    token = Token(
        name="some",
        sha256=hashed("bsk_some"),
        scopes=frozenset(map(Scope, scopes)),
        tables=frozenset({"t", "k"}),
    )
    asked = settings(f"{folder}/lake?durable=false", folder, tokens=(token,))
    before = versions(folder)
    some = [one.replace("{f}", "hidden") for one in CLAUSES] + TEXTS
    some += [one.replace("{f}", "read_text('{c}')") for one in CLAUSES]
    # With one scope alone nothing is possible at all.
    allowed = ["UPDATE t SET n = 2", "CREATE TABLE t2 (a INT)"] if len(scopes) == 1 else []
    with serving(asked) as served, served.as_("bsk_some") as client:
        for attempt in (some[::5] if len(scopes) == 1 else some) + allowed:
            answer = client.post("/v1/statements", json={"sql": filled_in(folder, attempt)})
            assert 400 <= answer.status_code < 500, (attempt, answer.text)
            assert SECRET not in answer.text
            sql = f"EXPLAIN ANALYZE {filled_in(folder, attempt)}"
            answer = client.post("/v1/query", json={"sql": sql})
            known = attempt in allowed[:1] and "read" in scopes
            assert (answer.status_code == 200) == known, (attempt, answer.text)
            assert SECRET not in answer.text
    assert versions(folder) == before
    assert not (folder / "out.csv").exists()
