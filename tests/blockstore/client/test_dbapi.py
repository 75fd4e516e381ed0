"""The DB-API driver writes: each statement is one version, and its errors are those of PEP 249."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.client import dbapi
from blockstore.client.many import Insert, insert_of
from tests.reader.http.gateways import FEW, READ, WRITE, Served, make_lake, serving, settings

COLUMNS = (
    "(sku varchar primary key, n integer default 7 check (n >= 0), price decimal(9, 2), day date, "
    "moment timestamptz, seen timestamp, raw blob, good boolean, part double, tags varchar[])"
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("dbapi")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


@pytest.fixture
def connection(gateway: Served) -> Iterator[dbapi.Connection]:
    with dbapi.connect(gateway.url, WRITE) as one:
        yield one


@pytest.fixture
def items(connection: dbapi.Connection, request: pytest.FixtureRequest) -> str:
    """A table of this test alone."""
    name = f"items_{abs(hash(request.node.name))}"
    connection.cursor().execute(f"create table {name} {COLUMNS}")
    connection.commit()
    return name


def versions(connection: dbapi.Connection, table: str) -> list[str]:
    cursor = connection.cursor().execute(f"select operation from {table}.history order by version")
    return [row[0] for row in cursor.fetchall()]


def test_statements_change_rows_and_the_next_query_reads_them(
    connection: dbapi.Connection, items: str
) -> None:
    cursor = connection.cursor()
    cursor.execute(f"-- a note\ninsert into {items} (sku, n) values (?, ?), ('b', 2)", ["a?", 1])
    assert (cursor.rowcount, cursor.description) == (2, None)
    with pytest.raises(dbapi.InterfaceError, match="no rows"):
        cursor.fetchone()
    assert cursor.execute(f"update {items} set n = n + ? where n < ?", [5, 2]).rowcount == 1
    assert cursor.execute(f"delete from {items} where sku = $1", ["b"]).rowcount == 1
    assert cursor.execute(f"select sku, n from {items}").fetchall() == [("a?", 6)]
    assert cursor.rowcount == -1
    cursor.execute(
        f"with more as (select 'c' as sku) insert into {items} (sku) select sku from more"
    )
    assert cursor.execute(f"select n from {items} where sku = 'c'").fetchall() == [(7,)]


def test_every_type_of_value_goes_there_and_back_by_both_ways(
    connection: dbapi.Connection, items: str
) -> None:
    row = (
        "a", 1, Decimal("12.50"), dt.date(2026, 1, 31),
        dt.datetime(2026, 1, 31, 12, 30, tzinfo=dt.UTC), dt.datetime(2026, 1, 31, 12, 30, 0, 5),
        b"\x00\xff", True, 0.1, ["x", None],
    )  # fmt: skip
    holes = ", ".join("?" * len(row))
    cursor = connection.cursor()
    cursor.execute(f"insert into {items} values ({holes})", row)
    names = "sku, n, price, day, moment, seen, raw, good, part, tags"
    cursor.executemany(
        f"insert into {items} ({names}) values ({holes})", [("b", *row[1:]), ("c", *[None] * 9)]
    )
    cursor.execute(f"select * from {items} order by sku")
    assert cursor.fetchall() == [row, ("b", *row[1:]), ("c", *[None] * 9)]
    kinds = [one[1] for one in cursor.description or ()]
    assert kinds[0] == dbapi.STRING
    assert kinds[1] == dbapi.NUMBER != kinds[0]
    assert kinds[3] == dbapi.DATETIME
    assert kinds[4] == dbapi.DATETIME
    assert kinds[6] == dbapi.BINARY
    assert dbapi.Binary(b"x") == b"x"
    assert isinstance(dbapi.TimeFromTicks(0), dt.time)
    assert isinstance(kinds[9], pa.ListType)


def test_many_rows_are_one_version_with_the_defaults_and_the_casts_of_their_columns(
    connection: dbapi.Connection, items: str
) -> None:
    cursor = connection.cursor()
    rows = [[f"k{n}", "2026-01-31"] for n in range(20_000)]
    cursor.executemany(f'INSERT INTO "{items}" (sku, "day") VALUES (?, ?)', rows)
    assert cursor.rowcount == 20_000
    cursor.execute(f"select count(*), min(n), max(day) from {items}")
    assert cursor.fetchall() == [(20_000, 7, dt.date(2026, 1, 31))]
    cursor.executemany(f"update {items} set n = ? where sku = ?", [(1, "k1"), (2, "k2")])
    assert cursor.rowcount == 2
    cursor.execute(f"select sku, n from {items} where n < 7 order by sku")
    assert cursor.fetchall() == [("k1", 1), ("k2", 2)]
    assert len(versions(connection, items)) == 3
    cursor.executemany(f"delete from {items} where sku = ? -- gone", [("k1",), ("k2",)])
    assert cursor.rowcount == 2
    assert len(versions(connection, items)) == 4
    cursor.executemany(f"insert into {items} (sku) values (?)", [])
    assert cursor.rowcount == 0
    assert len(versions(connection, items)) == 4


SAME: list[tuple[str, object]] = [
    ("n", 1.5), ("n", Decimal("2.5")), ("n", 2.0), ("n", "7"), ("n", True),
    ("price", Decimal("1.005")), ("price", 1.005), ("price", 2.675), ("price", "1.005"),
    ("day", dt.datetime(2026, 1, 31, 23)), ("day", dt.datetime(2026, 1, 31)), ("day", 5),
    ("seen", dt.date(2026, 1, 31)), ("seen", 5), ("seen", "2026-01-31 01:02:03.5"),
    ("raw", "x"), ("raw", "\\x41"), ("raw", "\u00e9"), ("good", 1), ("good", "true"),
    ("part", 2**53 + 1), ("part", Decimal("0.1")), ("part", "0.1"), ("part", "1e400"),
    ("note", 5), ("note", True), ("note", 0.1), ("note", 1e20), ("note", dt.date(2026, 1, 31)),
    ("note", dt.datetime(2026, 1, 31, 1)), ("note", Decimal("1.50")), ("note", b"x"),
    ("note", b"\\"), ("tags", [1]), ("tags", ["x", None]),
]  # fmt: skip


def test_many_rows_are_what_each_alone_is_or_are_refused(
    gateway: Served, connection: dbapi.Connection
) -> None:
    cursor = connection.cursor()
    types = "n bigint, price decimal(10, 2), day date, seen timestamp, raw blob, good boolean"
    cursor.execute(f"create table alike ({types}, part double, note varchar, tags varchar[])")
    taken = 0
    for name, value in SAME:
        found = []
        for do in (
            lambda sql, one: cursor.execute(sql, [one]),
            lambda sql, one: cursor.executemany(sql, [(one,)]),
        ):
            cursor.execute("delete from alike")
            try:
                do(f"insert into alike ({name}) values (?)", value)
            except dbapi.DatabaseError:
                found.append("refused")
            else:
                found.append(cursor.execute(f"select {name} from alike").fetchall())
        assert found[1] in ("refused", found[0]), (name, value)
        taken += found[1] != "refused"
    assert taken >= 22


def test_what_breaks_a_rule_is_an_integrity_error_and_changes_nothing(
    connection: dbapi.Connection, items: str
) -> None:
    cursor = connection.cursor()
    cursor.execute(f"insert into {items} (sku) values ('a')")
    for sql in (
        f"insert into {items} (sku) values ('a')",
        f"insert into {items} (sku, n) values ('b', -1)",
        f"update {items} set n = -1",
        f"insert into {items} (n) values (1)",
    ):
        with pytest.raises(dbapi.IntegrityError):
            cursor.execute(sql)
    for rows in ([("b", 1), ("a", 1)], [("b", -1)], [(None, 1)]):
        with pytest.raises(dbapi.IntegrityError):
            cursor.executemany(f"insert into {items} (sku, n) values (?, ?)", rows)
    with pytest.raises(dbapi.IntegrityError):
        cursor.executemany(f"update {items} set n = ?", [(1,), (-1,)])
    assert cursor.execute(f"select sku, n from {items}").fetchall() == [("a", 7)]


def test_what_cannot_be_done_is_a_programming_error(
    gateway: Served, connection: dbapi.Connection, items: str
) -> None:
    cursor = connection.cursor()
    for sql, says in (
        (f"insert into {items} (nix) values (1)", "nix"),
        ("insert into nowhere values (1)", "nowhere"),
        (f"insert into {items} (sku) values ('b') returning *", "RETURNING"),
        ("selec 1", "syntax"),
        (f"select 1; drop table {items}", "found 2"),
        (f"create table {items} (a integer)", "already"),
    ):
        with pytest.raises(dbapi.DatabaseError, match=says):
            cursor.execute(sql)
    with pytest.raises(dbapi.ProgrammingError, match="'n' of type int32"):
        cursor.executemany(f"insert into {items} (sku, n) values (?, ?)", [("a", 1), ("b", "x")])
    with pytest.raises(dbapi.ProgrammingError, match="1 values, expected 2"):
        cursor.executemany(f"insert into {items} (sku, n) values (?, ?)", [("a",)])
    with pytest.raises(dbapi.ProgrammingError, match="mapping"):
        cursor.executemany(f"insert into {items} (sku, n) values (?, ?)", [{"sku": "a"}])
    with dbapi.connect(gateway.url, READ) as reader:
        with pytest.raises(dbapi.ProgrammingError, match="write"):
            reader.cursor().execute(f"delete from {items}")
        with pytest.raises(dbapi.ProgrammingError, match="write"):
            reader.cursor().executemany(f"insert into {items} (sku) values (?)", [("a",)])
    with dbapi.connect(gateway.url, FEW) as few, pytest.raises(dbapi.ProgrammingError):
        few.cursor().executemany(f"insert into {items} (sku) values (?)", [("a",)])
    assert versions(connection, items) == ["create"]


def test_a_rollback_after_a_change_says_that_it_stays(
    gateway: Served, connection: dbapi.Connection, items: str
) -> None:
    connection.rollback()
    cursor = connection.cursor().execute(f"insert into {items} (sku) values ('a')")
    with pytest.raises(dbapi.NotSupportedError, match="1 change since the last commit"):
        connection.rollback()
    connection.rollback()
    cursor.execute(f"insert into {items} (sku) values ('b')")
    connection.commit()
    connection.rollback()
    with pytest.raises(dbapi.IntegrityError):
        cursor.execute(f"insert into {items} (sku) values ('b')")
    connection.rollback()
    with dbapi.connect(gateway.url, WRITE, autocommit=True) as other:
        other.cursor().execute(f"insert into {items} (sku) values ('c')")
        other.rollback()
    cursor.execute(
        f"begin; insert into {items} (sku) values (?); delete from {items} where sku = ?; commit",
        ["d", "a"],
    )
    assert cursor.execute(f"select sku from {items} order by 1").fetchall() == [
        ("b",), ("c",), ("d",)
    ]  # fmt: skip
    with pytest.raises(dbapi.NotSupportedError):
        connection.rollback()


def test_a_table_that_others_drop_does_not_break_the_connection(
    gateway: Served, connection: dbapi.Connection, items: str
) -> None:
    cursor = connection.cursor().execute(f"insert into {items} (sku) values ('a')")
    with dbapi.connect(gateway.url, WRITE) as other:
        other.cursor().execute(f"drop table {items}")
    assert cursor.execute("select 1").fetchall() == [(1,)]
    with pytest.raises(dbapi.ProgrammingError, match=items):
        cursor.execute(f"select * from {items}")


def test_own_changes_are_read_at_any_gateway(gateway: Served, tmp_path: Path, items: str) -> None:
    asked = gateway.gateway.settings
    late = settings(asked.tables.urls[0], tmp_path)
    with serving(late) as second, dbapi.connect(gateway.url, WRITE) as connection:
        cursor = connection.cursor()
        for n in range(5):
            cursor.execute(f"insert into {items} (sku) values (?)", [f"k{n}"])
            connection.client._wire._http.base_url = second.url
            assert cursor.execute(f"select count(*) from {items}").fetchall() == [(n + 1,)]
            connection.client._wire._http.base_url = gateway.url


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("insert into t (a) values (?)", Insert(table="t", columns=("a",))),
        (
            ' INSERT INTO "t ""?" ("a, b", c)\nVALUES ( ? , ?);',
            Insert(table='"t ""?"', columns=('"a, b"', "c")),
        ),
        ("insert into t (a, b) values (?)", None),
        ("insert into t (a) values (?, ?)", None),
        ("insert into t (a) values (lower(?))", None),
        ("insert into t (a) values (?) on conflict do nothing", None),
        ("insert or replace into t (a) values (?)", None),
        ("insert into t values (?)", None),
        ("insert into s.t (a) values (?)", None),
        ("delete from t where a = ?", None),
    ],
)
def test_which_statement_is_an_insert_of_parameters_alone(sql: str, found: Insert | None) -> None:
    assert insert_of(sql) == found
