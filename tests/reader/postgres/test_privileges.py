"""Privileges: what PostgreSQL's functions say of a caller is what the doors let it do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from blockstore.reader.http.tokens import Scope, Token, hashed
from tests.reader.doors.restricted import ANN, HER
from tests.reader.doors.restricted import make_lake as with_policies
from tests.reader.http.gateways import (
    ADMIN,
    FEW,
    FEW_DDL,
    READ,
    TOKENS,
    WRITE,
    make_lake,
    settings,
)
from tests.reader.postgres.raw import (
    SERIES,
    SYNC,
    Doors,
    Raw,
    bind,
    both,
    describe,
    error_of,
    execute,
    parse,
    row_of,
)

ONE = "bsk_one"
"""May read ``salaries`` and nothing else."""
CHANGES = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("privileges")
    make_lake(folder)
    asked = settings(with_policies(folder), folder)
    narrow = Token(
        name="one",
        sha256=hashed(ONE),
        scopes=frozenset({Scope.READ}),
        tables=frozenset({"salaries"}),
    )
    with both(replace(asked, tokens=(*TOKENS, HER, narrow))) as made:
        yield made


@contextmanager
def signed_in(lake: Doors, token: str) -> Iterator[Raw]:
    with Raw(lake.door.port) as made:
        made.sign_in(token)
        yield made


def may(one: Raw, table: str, *privileges: str) -> set[str]:
    """Those of the privileges that the caller has."""
    asked = ", ".join(f"has_table_privilege('{table}', '{own}')" for own in privileges)
    (found,) = one.rows(f"SELECT {asked}")
    assert set(found) <= {"t", "f"}
    return {own for own, has in zip(privileges, found, strict=True) if has == "t"}


@pytest.mark.parametrize(
    ("token", "table", "rights"),
    [
        (READ, "flights", {"SELECT"}),
        (WRITE, "flights", {"SELECT", *CHANGES}),
        (ADMIN, "flights", {"SELECT", *CHANGES}),
        (FEW, "flights", {"SELECT", *CHANGES}),
        (FEW_DDL, "flights", {"SELECT"}),
        (ONE, "salaries", {"SELECT"}),
        (ANN, "orders", {"SELECT"}),
        (ANN, "open", {"SELECT", *CHANGES}),
        (WRITE, "pg_class", {"SELECT"}),
        (WRITE, "information_schema.tables", {"SELECT"}),
    ],
)
def test_what_a_token_may_do_with_a_table(
    lake: Doors, token: str, table: str, rights: set[str]
) -> None:
    with signed_in(lake, token) as one:
        assert may(one, table, "SELECT", *CHANGES, "REFERENCES", "TRIGGER") == rights
        assert may(one, table, "SELECT WITH GRANT OPTION") == set()


@pytest.mark.parametrize("token", [READ, WRITE, FEW, ANN, FEW_DDL])
def test_what_is_said_is_what_the_door_does(lake: Doors, token: str) -> None:
    tables = ("orders", "open") if token == ANN else ("flights",)
    columns = {"orders": "id", "open": "a", "flights": "n"}
    with signed_in(lake, token) as one:
        for table in tables:
            column = columns[table]
            for right, sql in (
                ("SELECT", f"SELECT {column} FROM {table} LIMIT 1"),
                ("INSERT", f"INSERT INTO {table} ({column}) SELECT 1 WHERE false"),
                ("UPDATE", f"UPDATE {table} SET {column} = 1 WHERE false"),
                ("DELETE", f"DELETE FROM {table} WHERE false"),
            ):
                errors = [error_of(body)["C"] for kind, body in one.ask(sql) if kind == "E"]
                refused = "42501" in errors
                assert refused is (may(one, table, right) == set()), (table, right, errors)


def test_a_table_that_the_token_may_not_see_does_not_exist(lake: Doors) -> None:
    with signed_in(lake, FEW) as few, signed_in(lake, WRITE) as all_of_them:
        (number,) = all_of_them.rows("SELECT 'salaries'::regclass::oid")[0]
        for name in ("salaries", "public.salaries", "nowhere", "other.flights", "SALARIES"):
            found = few.fails(f"SELECT has_table_privilege('{name}', 'SELECT')")
            assert (found["C"], found["M"]) == ("42P01", f'relation "{name}" does not exist')
        assert few.rows(f"SELECT has_table_privilege({number}, 'SELECT')") == [[None]]
        assert all_of_them.rows(f"SELECT has_table_privilege({number}, 'SELECT')") == [["t"]]
        assert few.fails("SELECT has_any_column_privilege('salaries', 'SELECT')")["C"] == "42P01"
        assert few.fails("SELECT has_column_privilege('salaries', 'n', 'SELECT')")["C"] == "42P01"


@pytest.mark.parametrize("name", ["x" * 5_000, "public." + "é" * 400, '"' * 3_000, "a b\n" * 900])
def test_a_long_unknown_name_does_not_exist_and_is_shown_shortened(lake: Doors, name: str) -> None:
    with signed_in(lake, READ) as one:
        found = one.fails(f"SELECT has_table_privilege('{name}', 'SELECT')")
        assert (found["C"], found["M"][:10]) == ("42P01", 'relation "')
        assert found["M"].endswith('…" does not exist')
        assert len(found["M"]) < 300
        column = one.fails(f"SELECT has_column_privilege('flights', '{name}', 'SELECT')")
        assert (column["C"], column["M"][:8]) == ("42703", 'column "')
        assert column["M"].endswith('…" of relation "flights" does not exist')
        both = one.fails(f"SELECT has_column_privilege('{name}', '{name}', 'SELECT')")
        assert both["C"] == "42P01"
        for asked, state in (
            (f"has_schema_privilege('{name}', 'USAGE')", "3F000"),
            (f"has_database_privilege('{name}', 'CONNECT')", "3D000"),
            (f"pg_has_role('{name}', 'USAGE')", "42704"),
            (f"has_sequence_privilege('{name}', 'USAGE')", "42P01"),
            (f"has_table_privilege('flights', '{name}')", "22023"),
        ):
            assert one.fails(f"SELECT {asked}")["C"] == state, asked[:60]


@pytest.mark.parametrize(
    "name",
    ["flights", "FLIGHTS", "public.flights", '"public"."flights"', "lake.public.flights"],
)
def test_a_name_may_have_a_schema_and_quotes(lake: Doors, name: str) -> None:
    with signed_in(lake, READ) as one:
        assert may(one, name, "SELECT", "INSERT") == {"SELECT"}


def test_several_privileges_are_had_if_one_of_them_is(lake: Doors) -> None:
    with signed_in(lake, READ) as one:
        assert may(one, "flights", "insert , Select", "INSERT,UPDATE") == {"insert , Select"}
        found = one.fails("SELECT has_table_privilege('flights', 'READ')")
        assert (found["C"], found["M"]) == ("22023", 'unrecognized privilege type: "READ"')


def test_one_may_ask_of_oneself_alone(lake: Doors) -> None:
    with signed_in(lake, READ) as one:
        own = ", ".join(
            f"has_table_privilege({user}, 'flights', 'SELECT')"
            for user in ("current_user", "'tester'", "session_user", "10")
        )
        assert one.rows(f"SELECT {own}") == [["t"] * 4]
        for asked in (
            "has_table_privilege('boss', 'flights', 'SELECT')",
            "has_table_privilege('public', 'flights', 'SELECT')",
            "has_schema_privilege('boss', 'public', 'USAGE')",
            "has_database_privilege('boss', 'lake', 'CONNECT')",
            "has_any_column_privilege('boss', 'flights', 'SELECT')",
            "has_column_privilege('boss', 'flights', 'n', 'SELECT')",
            "pg_has_role('boss', 'tester', 'USAGE')",
        ):
            found = one.fails(f"SELECT {asked}")
            assert found["C"] == "42501", (asked, found)
            assert "rights of its own user, tester, and of no other" in found["M"]


def test_rights_of_columns(lake: Doors) -> None:
    with signed_in(lake, ANN) as one:
        assert one.rows(
            "SELECT has_column_privilege('orders', 'amount', 'SELECT'), "
            "has_column_privilege('orders', 'amount', 'UPDATE'), "
            "has_column_privilege('open', 'a', 'UPDATE'), "
            "has_column_privilege('open', 1::smallint, 'INSERT'), "
            "has_column_privilege('open', 99, 'INSERT'), "
            "has_any_column_privilege('orders', 'INSERT'), "
            "has_any_column_privilege('open', 'INSERT')"
        ) == [["t", "f", "t", "t", None, "f", "t"]]
        for column in ("note", "nothing"):
            found = one.fails(f"SELECT has_column_privilege('orders', '{column}', 'SELECT')")
            assert found["C"] == "42703"
            assert found["M"] == f'column "{column}" of relation "orders" does not exist'


@pytest.mark.parametrize(("token", "creates"), [(READ, "f"), (WRITE, "t"), (FEW, "f")])
def test_rights_of_schemas_and_databases(lake: Doors, token: str, creates: str) -> None:
    with signed_in(lake, token) as one:
        assert one.rows(
            "SELECT has_schema_privilege('public', 'USAGE'), "
            "has_schema_privilege('public', 'CREATE'), "
            "has_schema_privilege('pg_catalog', 'CREATE'), "
            "has_schema_privilege(2200, 'CREATE'), "
            "has_schema_privilege('information_schema', 'USAGE'), "
            "has_database_privilege('lake', 'CONNECT'), has_database_privilege('lake', 'CREATE'), "
            "has_database_privilege('lake', 'TEMP'), "
            "pg_has_role('tester', 'USAGE'), pg_has_role('pg_read_all_data', 'MEMBER')"
        ) == [["t", creates, "f", creates, "t", "t", "f", "f", "t", "f"]]
        assert one.fails("SELECT has_schema_privilege('secret', 'USAGE')")["C"] == "3F000"
        assert one.fails("SELECT has_database_privilege('other', 'CONNECT')")["C"] == "3D000"
        assert one.fails("SELECT pg_has_role('boss', 'USAGE')")["C"] == "42704"
        assert one.fails("SELECT has_table_privilege('flights')")["C"] == "42883"


def test_rights_of_every_row_of_a_catalog(lake: Doors) -> None:
    with signed_in(lake, ANN) as one:
        found = one.rows(
            "SELECT relname, has_table_privilege(oid, 'SELECT'), has_table_privilege(c.oid, "
            "'UPDATE'), has_table_privilege(current_user, c.relname, 'DELETE') "
            "FROM pg_class c WHERE relkind = 'r' ORDER BY relname"
        )
        assert {row[0]: row[1:] for row in found} == {
            "flights": ["t", "t", "t"],
            "open": ["t", "t", "t"],
            "orders": ["t", "f", "f"],
            "salaries": ["t", "t", "t"],
        }
        assert one.rows(
            "SELECT attname, has_column_privilege(attrelid, attnum, 'UPDATE') FROM pg_attribute "
            "WHERE attrelid IN ('open'::regclass, 'orders'::regclass) AND attname < 'c' ORDER BY 1"
        ) == [["a", "t"], ["amount", "f"], ["b", "t"]]


def test_grants_are_listed(lake: Doors) -> None:
    for view in ("table_privileges", "role_table_grants"):
        with signed_in(lake, FEW) as few, signed_in(lake, ONE) as one:
            rows = few.rows(
                "SELECT grantee, table_schema, table_name, privilege_type, is_grantable FROM "
                f"information_schema.{view} ORDER BY privilege_type"
            )
            assert rows == [
                ["tester", "public", "flights", right, "NO"]
                for right in ("DELETE", "INSERT", "SELECT", "TRUNCATE", "UPDATE")
            ]
            assert one.rows(
                f"SELECT table_name, privilege_type FROM information_schema.{view}"
            ) == [["salaries", "SELECT"]]


def test_what_is_asked_may_be_a_parameter(lake: Doors) -> None:
    sql = "SELECT has_table_privilege($1, $2)"
    with signed_in(lake, READ) as one:
        for values, answer in (
            ((b"flights", b"SELECT"), "t"),
            ((b"flights", b"INSERT"), "f"),
            ((None, b"INSERT"), None),
        ):
            one.send(parse(sql), describe(b"S"), bind(values), *SERIES[2:])
            rows = [row_of(body) for kind, body in one.until_ready() if kind == "D"]
            assert rows == [[answer]]
        one.send(parse(sql), bind((b"nowhere", b"SELECT")), execute(), SYNC)
        errors = [error_of(body) for kind, body in one.until_ready() if kind == "E"]
        assert [found["C"] for found in errors] == ["42P01"]
