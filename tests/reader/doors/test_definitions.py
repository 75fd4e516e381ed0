"""The same statements at every door: they create, alter and drop tables and change their rows, and
leave the same; each needs its scope and its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.compactor.settings import Settings
from blockstore.format.definition import Definition
from blockstore.table import Table
from tests.reader.doors.three import Three, three
from tests.reader.http.gateways import DDL, FEW_DDL, OTHER, READ, WRITE, make_lake, settings
from tests.reader.postgres.raw import error_of, until

DOORS = ("http", "flight", "postgres")
Send = Callable[[str, str], str]
"""Sends a statement with a token; returns what is wrong with it, or nothing."""

SCRIPT = [
    "CREATE TABLE {t} (item VARCHAR PRIMARY KEY, n INTEGER NOT NULL DEFAULT 1 CHECK (n >= 0))",
    "CREATE TABLE IF NOT EXISTS {t} (other INTEGER)",
    "INSERT INTO {t} (item) VALUES ('nut'), ('bolt'), ('pin')",
    "ALTER TABLE {t} ADD COLUMN day DATE",
    "COMMENT ON COLUMN {t}.day IS 'when it came'",
    "UPDATE {t} SET n = n + 4, day = '2026-01-01' WHERE item <> 'pin'",
    """MERGE INTO {t} USING (SELECT 'rod' AS item) s ON {t}.item = s.item
    WHEN NOT MATCHED THEN INSERT (item, n) VALUES (s.item, 7)""",
    "DELETE FROM {t} WHERE item = 'pin'",
    "ALTER TABLE {t} RENAME COLUMN n TO amount",
    "CREATE TABLE {t}_plain (item VARCHAR, n INTEGER)",
    "INSERT INTO {t}_plain VALUES ('a', 1), ('b', 2)",
    "UPDATE {t}_plain SET n = n * 10 WHERE item = 'b'",
    "DELETE FROM {t}_plain WHERE n = 1",
    "CREATE TABLE {t}_gone (a INTEGER)",
    "DROP TABLE {t}_gone",
    "DROP TABLE IF EXISTS {t}_gone",
    "CREATE TABLE {t}_copy WITH (row_ids = true) AS SELECT item, amount * 2 AS twice FROM {t}",
    "CREATE TABLE IF NOT EXISTS {t}_copy AS SELECT 1 AS a",
    "CREATE TABLE {t}_none AS SELECT item FROM {t} WHERE false",
    "CREATE OR REPLACE TABLE {t}_again (a INTEGER)",
    "CREATE OR REPLACE TABLE {t}_again (b INTEGER)",
    "CREATE OR REPLACE TABLE {t}_again AS SELECT item FROM {t} WHERE amount > 5",
    "CREATE OR REPLACE TABLE {t}_new AS SELECT 1 AS one",
    "CREATE TABLE {t}_kept AS SELECT item FROM {t}",
    "CALL tag('{t}_kept', 'all')",
    "CALL tag('{t}_kept', 'first', 1)",
    "DELETE FROM {t}_kept",
    "INSERT INTO {t}_kept VALUES ('late')",
    "CALL restore('{t}_kept', 'all')",
    "CALL untag('{T}_KEPT', 'first')",
    "DROP TABLE {t}_kept",
    "UNDROP {t}_kept",
    "INSERT INTO {t}_kept VALUES ('more'), ('most')",
    "CALL compact('{t}_kept')",
    "DROP TABLE {t}_again",
    "CALL undrop('{t}_again')",
]
LATE = """CREATE TABLE new AS SELECT CASE i WHEN 9000 THEN error('late') ELSE '' END AS e
    FROM flights, range(9999) r(i)"""
"""Its first rows are fine."""
ROWS = [("bolt", 5, "2026-01-01"), ("nut", 5, "2026-01-01"), ("rod", 7, None)]


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    folder = tmp_path_factory.mktemp("definitions")
    url = make_lake(folder)
    bs.open(f"{url.partition('?')[0]}/flights").tag("taken", version=1)
    with three(settings(url, folder), folder / "audit.jsonl") as made:
        assert until(made.gateway.tables.names), "the gateway has listed its lake"
        yield made


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def send(doors: Three, door: str) -> Send:
    def http(sql: str, token: str) -> str:
        client: httpx.Client
        with doors.served.as_(token) as client:
            answer = client.post("/v1/statements", json={"sql": sql})
        return "" if answer.status_code == 200 else str(answer.json()["message"])

    def flight(sql: str, token: str) -> str:
        with doors.client(token) as client:
            try:
                client.update(sql)
            except (pa.ArrowException, pa.ArrowKeyError) as error:
                return str(error)
        return ""

    def postgres(sql: str, token: str) -> str:
        raw = doors.raw(token)
        try:
            found = raw.ask(sql)
            return next((error_of(body)["M"] for kind, body in found if kind == "E"), "")
        finally:
            raw.close()

    return {"http": http, "flight": flight, "postgres": postgres}[door]


def opened(doors: Three, name: str) -> Table:
    folder = doors.gateway.settings.tables.urls[0].partition("?")[0]
    return bs.open(f"{folder}/{name}")


def definition(doors: Three, name: str) -> Definition:
    return opened(doors, name).definition


def test_a_script_leaves_the_same_at_every_door(doors: Three, door: str, send: Send) -> None:
    for statement in SCRIPT:
        assert send(statement.format(t=door, T=door.upper()), WRITE) == "", statement
    found = doors.served.rows(f"SELECT item, amount, CAST(day AS VARCHAR) FROM {door} ORDER BY 1")
    assert [tuple(row.values()) for row in found] == ROWS
    assert doors.served.rows(f"FROM {door}_plain") == [{"item": "b", "n": 20}]
    copied = doors.served.rows(f"SELECT item, twice FROM {door}_copy ORDER BY 1")
    assert [tuple(row.values()) for row in copied] == [("bolt", 10), ("nut", 10), ("rod", 14)]
    assert definition(doors, f"{door}_copy").identity is not None
    assert doors.served.rows(f"FROM {door}_none") == []
    assert doors.served.rows(f"FROM {door}_again") == [{"item": "rod"}]
    assert doors.served.rows(f"FROM {door}_new") == [{"one": 1}]
    kept = doors.served.rows(f"SELECT item FROM {door}_kept ORDER BY item")
    assert [row["item"] for row in kept] == ["bolt", "more", "most", "nut", "rod"]
    assert opened(doors, f"{door}_kept").log.state.tags.keys() == {"all"}
    made = definition(doors, door)
    assert made.schema.names == ["item", "amount", "day"]
    assert f"{door}_gone" not in doors.gateway.tables.names()


@pytest.mark.parametrize(
    ("sql", "token", "said"),
    [
        ("CREATE TABLE new (a INT)", READ, "lacks scope"),
        ("CREATE TABLE new (a INT)", OTHER, "lacks scope 'ddl'"),
        ("DROP TABLE flights", OTHER, "lacks scope 'ddl'"),
        ("DELETE FROM flights", DDL, "lacks scope"),
        ("CREATE TABLE new (a INT)", FEW_DDL, "new is none of them"),
        ("DROP TABLE secret", FEW_DDL, "no table secret"),
        ("CREATE TABLE flights (a INT)", DDL, "already a table flights"),
        ("CREATE TABLE new AS SELECT 1 AS a", DDL, "lacks scope 'read'"),
        ("CREATE TABLE new AS SELECT 1 AS a", READ, "lacks scope"),
        ("CREATE TABLE mine AS SELECT * FROM secret", FEW_DDL, "no table secret"),
        ("CREATE TABLE new AS SELECT nope FROM flights", WRITE, "nope"),
        ("CREATE TABLE new AS SELECT * FROM read_csv('/etc/passwd')", WRITE, "read_csv"),
        ("CREATE TABLE new AS SELECT getenv('HOME') AS a", WRITE, "getenv"),
        ("CREATE TABLE flights AS SELECT 1 AS a", WRITE, "already a table flights"),
        (
            LATE,
            WRITE,
            "late",
        ),
        ("CREATE OR REPLACE TABLE flights (a INT)", OTHER, "lacks scope 'ddl'"),
        ("CREATE OR REPLACE TABLE secret (a INT)", FEW_DDL, "secret is none of them"),
        ("CREATE OR REPLACE TABLE flights AS SELECT 1 AS a", DDL, "lacks scope 'read'"),
        ("CREATE OR REPLACE TABLE flights AS FROM flights", WRITE, "which it is to replace"),
        (LATE.replace("CREATE TABLE new", "CREATE OR REPLACE TABLE other"), WRITE, "late"),
        ("CREATE VIEW new AS SELECT 1 AS a", DDL, "expected TABLE"),
        ("CREATE INDEX new ON flights (n)", DDL, "expected TABLE"),
        ("CREATE TABLE new (a INT DEFAULT (SELECT max(n) FROM flights))", DDL, "DEFAULT"),
        ("CREATE TABLE new (a VARCHAR DEFAULT repeat('x', 5000))", DDL, "5,002 characters"),
        ("CREATE TABLE new (a VARCHAR DEFAULT repeat('x', 9000000))", DDL, "65,536 bytes"),
        ("ALTER TABLE flights ADD COLUMN n INT", DDL, "n"),
        ("CALL compact('flights')", OTHER, "lacks scope 'ddl'"),
        ("CALL tag('flights', 'a')", READ, "lacks scope"),
        ("CALL tag('secret', 'a')", FEW_DDL, "no table secret"),
        ("CALL restore('flights', 1)", DDL, "lacks scope 'write'"),
        ("CALL revert('flights', 'x')", DDL, "lacks scope 'write'"),
        ("CALL restore('flights')", WRITE, "write CALL restore('t', 3)"),
        ("CALL vacuum('flights')", WRITE, "there is no CALL vacuum"),
        ("CALL undrop('flights')", WRITE, "is not dropped"),
        ("CALL restore('flights', \u00b2)", WRITE, "a whole number"),
        ("CALL tag('flights', 'taken')", WRITE, "untag it first"),
        ("CREATE OR REPLACE TABLE flights AS FROM flights.history", WRITE, "it is to replace"),
        ("CREATE OR REPLACE TABLE flights AS FROM flights AT (VERSION => 1)", WRITE, "to replace"),
        ("CREATE OR REPLACE TABLE Secret (a INT)", FEW_DDL, "Secret is none of them"),
        ("UNDROP secret", FEW_DDL, "no table secret"),
        ("UNDROP flights", OTHER, "lacks scope 'ddl'"),
    ],
)
def test_what_is_refused_is_refused_at_every_door(
    doors: Three, send: Send, sql: str, token: str, said: str
) -> None:
    before = set(doors.gateway.tables.names())
    answer = send(sql, token)
    assert said in answer
    assert "\n" not in answer.partition(". gRPC")[0]
    assert set(doors.gateway.tables.names()) == before
    assert definition(doors, "flights").schema.names == ["time", "n", "s"]


def test_a_creation_with_a_key_happens_once_by_flight(doors: Three) -> None:
    with doors.client(WRITE) as client:
        for _ in range(2):
            client.update("CREATE TABLE once (a INTEGER)", idempotency_key="monday")
        with pytest.raises(pa.ArrowException, match="already a table once"):
            client.update("CREATE TABLE once (a INTEGER)")
        with pytest.raises(pa.ArrowException, match="another request"):
            client.update("CREATE TABLE twice (a INTEGER)", idempotency_key="monday")
    assert definition(doors, "once").schema.names == ["a"]


@pytest.mark.parametrize(
    ("sql", "since"),
    [
        ("CALL tag('{t}', 'a')", "CALL untag('{t}', 'a')"),
        ("CALL restore('{t}', 2)", "DELETE FROM {t}"),
        ("CREATE OR REPLACE TABLE {t} AS SELECT 7 AS n", "DELETE FROM {t}"),
        ("CALL compact('{t}')", "INSERT INTO {t} VALUES (5)"),
        ("DROP TABLE {t}", "UNDROP {t}"),
    ],
)
def test_with_a_key_it_happens_once_whatever_came_since(doors: Three, sql: str, since: str) -> None:
    name = f"once_{abs(hash(sql))}"
    with doors.client(WRITE) as client:
        client.update(f"CREATE TABLE {name} (n INTEGER)")
        for number in range(10):
            client.update(f"INSERT INTO {name} VALUES ({number})")
        client.update(sql.format(t=name), idempotency_key=f"{name}-key")
        client.update(since.format(t=name))
        state = opened(doors, name).log.state
        client.update(sql.format(t=name), idempotency_key=f"{name}-key")
        assert opened(doors, name).log.state == state


def test_merges_take_the_place_and_the_memory_of_a_query(
    doors: Three, monkeypatch: pytest.MonkeyPatch
) -> None:
    from blockstore.compactor import called

    taken: list[tuple[int, int, bool]] = []
    real = called.compact_once

    def compact_once(table: Table, settings: Settings, **more: Any) -> Any:
        there = settings.work_dir.is_dir()
        taken.append((doors.gateway.engine.running(), settings.memory_bytes, there))
        return real(table, settings, **more)

    monkeypatch.setattr(called, "compact_once", compact_once)
    with doors.client(WRITE) as client:
        client.update("CREATE TABLE placed AS SELECT 1 AS n")
        client.update("CALL compact('placed')")
    query = doors.gateway.settings.query
    assert taken == [(1, query.memory_bytes // query.at_once, True)]
    assert doors.gateway.engine.running() == 0


def test_postgres_defines_no_table_in_a_transaction(doors: Three) -> None:
    with doors.raw(WRITE) as raw:
        raw.ask("begin")
        assert "autocommit" in raw.fails("CREATE TABLE within (a int)")["M"]
        raw.ask("rollback")
        raw.ask("CREATE TABLE public.within (a int, b text, c timestamp without time zone)")
        assert raw.rows("SELECT count(*) FROM public.within") == [["0"]]
        raw.ask("SET default_transaction_read_only = on")
        assert raw.fails("DROP TABLE within")["C"] == "25006"
    assert definition(doors, "within").schema.names == ["a", "b", "c"]


def test_the_audit_log_has_a_line_of_each(doors: Three, door: str, send: Send) -> None:
    send(f"CREATE TABLE audited_{door} (a INT) /* by {door} */", WRITE)
    (line,) = doors.about(f"by {door}")
    assert (line["outcome"], line["token"]) == ("ok", "writer")
    assert line["committed"] == {f"audited_{door}": 1}
