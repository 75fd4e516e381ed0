"""The escapes of the engine's own list, through this door: none reads a hidden table or a file, by
the simple protocol, as a prepared statement, in a COPY, in a cursor, or by a translation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.reader.http.tokens import Scope, Token, hashed
from blockstore.table import create
from tests.reader.http.gateways import settings
from tests.reader.postgres.raw import SERIES, Doors, both, describe, error_of, parse
from tests.reader.query import test_escapes as known

SECRET = known.SECRET
FROMS = [f"SELECT * FROM {one}" for one in known.READERS]
MORE = [
    'SELECT * FROM "catalog:pg_authid"',
    "SELECT * FROM hidden",
    "SELECT * FROM public.hidden",
    "SELECT * FROM pg_catalog.read_csv('{p}')",
    "SELECT pg_read_file('{p}')",
    "SELECT pg_catalog.pg_ls_dir('/')",
    "SELECT lo_import('{p}')",
    "SELECT pg_catalog.getenv('HOME')",
    "SELECT * FROM pg_class, '{p}'",
    "SELECT * FROM pg_class, read_parquet('{p}')",
    "SELECT to_char(now(), 'YYYY') FROM read_parquet('{p}')",
    "SELECT to_char(now(), 'YYYY') FROM '{p}'",
    "SELECT query('SELECT 1') FROM pg_class",
    "SELECT * FROM duckdb_settings(), pg_class",
    "WITH pg_class AS (SELECT * FROM read_text('{p}')) SELECT * FROM pg_class",
    "SELECT current_setting('{p}'), * FROM query_table('hidden')",
    "COPY hidden TO STDOUT",
    "COPY (SELECT * FROM '{p}') TO STDOUT",
    "COPY t TO '{p}'",
    "COPY t FROM '{p}'",
    "COPY t TO PROGRAM 'cat'",
    "COPY hidden FROM STDIN",
    "SET search_path = hidden; SELECT * FROM hidden.hidden",
    "ATTACH '{p}' AS x",
    "INSTALL httpfs",
    "LOAD '{p}'",
    "PRAGMA database_list",
    "DO $$ BEGIN END $$",
    "EXPLAIN ANALYZE SELECT * FROM '{p}'",
    "EXPLAIN SELECT * FROM hidden",
    "BEGIN; SELECT * FROM hidden",
    "BEGIN; INSERT INTO t SELECT a FROM hidden",
    "INSERT INTO t SELECT * FROM read_text('{p}')",
    "INSERT INTO t SELECT a FROM hidden RETURNING a",
    "UPDATE t SET a = (SELECT a FROM hidden) RETURNING a",
    "BEGIN; DECLARE c CURSOR FOR SELECT * FROM hidden; FETCH ALL FROM c",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("escapes")
    for name, value in (("t", "open"), ("hidden", SECRET)):
        made = create(f"{folder}/lake/{name}?durable=false", schema=pa.schema([("a", pa.string())]))
        made.append(pa.table({"a": [value]}))
    return folder


@pytest.fixture(scope="module")
def doors(folder: Path) -> Iterator[Doors]:
    asked = settings(f"{folder}/lake?durable=false", folder)
    token = Token(
        name="t",
        sha256=hashed("bsk_t"),
        scopes=frozenset({Scope.READ, Scope.WRITE}),
        tables=frozenset({"t"}),
    )
    reads = replace(token, name="r", sha256=hashed("bsk_r"), scopes=frozenset({Scope.READ}))
    with both(replace(asked, tokens=(token, reads))) as made:
        yield made


@pytest.mark.parametrize("sql", FROMS + MORE)
def test_no_text_reads_more_than_the_tables_of_its_token(
    doors: Doors, folder: Path, sql: str
) -> None:
    parquet = str(next(folder.glob("lake/hidden/*/chunks/*.parquet")))
    sql = sql.replace("{p}", parquet)
    with doors.client("bsk_t") as one:
        found = one.ask(sql)
        assert any(kind == "E" for kind, _ in found), found
        assert not any(SECRET.encode() in body for _, body in found)
    if ";" in sql:
        return
    with doors.client("bsk_t") as one:
        one.send(parse(sql), describe(b"S"), *SERIES)
        found = one.until_ready()
        errors = [error_of(body) for kind, body in found if kind == "E"]
        assert errors, found
        assert not any(SECRET.encode() in body for _, body in found)
        assert one.rows("SELECT a FROM t") == [["open"]]


def test_a_translated_query_is_admitted_as_any_other(doors: Doors, folder: Path) -> None:
    """Each attempt beside a catalog, which makes the door translate the text."""
    parquet = str(next(folder.glob("lake/hidden/*/chunks/*.parquet")))
    with doors.client("bsk_t") as one:
        for reader in known.READERS:
            sql = f"SELECT * FROM pg_catalog.pg_class AS c, {reader.replace('{p}', parquet)}"
            found = one.ask(sql)
            assert any(kind == "E" for kind, _ in found), sql
            assert not any(SECRET.encode() in body for _, body in found), sql


def test_no_attempt_of_the_engines_list_shows_a_secret_or_writes_a_file(
    doors: Doors, folder: Path
) -> None:
    parquet = str(next(folder.glob("lake/hidden/*/chunks/*.parquet")))
    before = sorted(str(path) for path in folder.glob("lake/*/*"))
    refused = 0
    for attempt in known.attempts():
        sql = attempt.format(p=parquet, c=f"{folder}/loose.csv", d=folder)
        with doors.client("bsk_r") as one:
            found = one.ask(sql)
            refused += any(kind == "E" for kind, _ in found)
            assert not any(SECRET.encode() in body for _, body in found), sql
    assert refused > 200
    assert sorted(str(path) for path in folder.glob("lake/*/*")) == before
    with doors.client("bsk_r") as one:
        assert one.rows("SELECT a FROM t") == [["open"]]
