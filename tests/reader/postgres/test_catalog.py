"""The catalogs: the queries that clients sent when they connected, listed tables and read schemas,
recorded, and what they find. Those of DataGrip, DBeaver, Grafana, Metabase, Npgsql, pgAdmin and
pgcli, which do not run here, are written after what they ask.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.reader.postgres.catalog import oid_of
from tests.reader.postgres.raw import (
    SYNC,
    Doors,
    Raw,
    bind,
    both,
    describe,
    error_of,
    execute,
    frame,
    parse,
    settings_of,
    text,
)

RECORDED = Path(__file__).parent / "catalog_queries"
QUERIES = [
    (path.stem, place, sql)
    for path in sorted(RECORDED.glob("*.sql"))
    for place, sql in enumerate(path.read_text().split("-- next\n"))
]
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        bs.column("name", pa.string(), description="as it is spoken"),
        pa.field("score", pa.decimal128(10, 2)),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("extra", pa.struct([("a", pa.int32())])),
        pa.field("seen", pa.timestamp("us", "UTC")),
    ]
)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("catalog")
    asked = settings_of(folder)
    bs.create(f"{folder}/lake/people?durable=false", schema=SCHEMA, key=["id"])
    with both(asked) as made:
        yield made


@pytest.fixture
def one(people: Doors) -> Iterator[Raw]:
    with people.client() as made:
        yield made


@pytest.mark.parametrize(
    ("client", "place", "sql"), QUERIES, ids=[f"{client}-{place}" for client, place, _ in QUERIES]
)
def test_a_query_that_a_client_was_seen_to_send_is_answered(
    one: Raw, client: str, place: int, sql: str
) -> None:
    one.send(parse(sql), describe(b"S"), SYNC)
    found = one.until_ready()
    errors = [error_of(body) for kind, body in found if kind == "E"]
    assert not errors, errors
    (types,) = [body for kind, body in found if kind == "t"]
    (count,) = struct.unpack_from("!h", types)
    nothing = struct.pack("!h", 0) + struct.pack("!h", count) + struct.pack("!i", -1) * count
    one.send(frame(b"B", text("") + text("") + nothing + struct.pack("!h", 0)), execute(), SYNC)
    kinds = [(kind, body) for kind, body in one.until_ready() if kind in ("E", "C")]
    assert [kind for kind, _ in kinds] == ["C"], kinds


def test_tables_and_their_columns(one: Raw) -> None:
    sql = (
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"
    )
    assert one.rows(sql) == [["flights"], ["people"], ["salaries"]]
    found = one.rows(
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull "
        "FROM pg_catalog.pg_attribute a JOIN pg_class c ON a.attrelid = c.oid "
        "WHERE c.oid = 'public.people'::regclass ORDER BY a.attnum"
    )
    assert found == [
        ["id", "bigint", "t"],
        ["name", "text", "f"],
        ["score", "numeric(10,2)", "f"],
        ["tags", "text[]", "f"],
        ["extra", "json", "f"],
        ["seen", "timestamp with time zone", "f"],
    ]
    columns = one.rows(
        "SELECT column_name, data_type, udt_name, numeric_precision, is_nullable "
        "FROM information_schema.columns WHERE table_name = 'people' ORDER BY ordinal_position"
    )
    assert columns[0] == ["id", "bigint", "int8", "64", "NO"]
    assert columns[2:4] == [
        ["score", "numeric", "numeric", "10", "YES"],
        ["tags", "ARRAY", "_text", None, "YES"],
    ]


def _recorded(client: str, place: int) -> str:
    (sql,) = [one for name, at, one in QUERIES if (name, at) == (client, place)]
    return sql


def test_grafana_lists_tables_and_columns_by_their_quoted_names(one: Raw) -> None:
    assert one.rows(_recorded("grafana", 4)) == [["flights"], ["people"], ["salaries"]]
    columns = one.rows(_recorded("grafana", 5))
    assert [row[0] for row in columns] == ["id", "name", "score", "tags", "extra", "seen"]
    short, long = "parse_ident('people')", "parse_ident('public.people')"
    assert one.rows(_recorded("grafana", 5).replace(short, long)) == columns
    assert one.rows("SELECT quote_ident('a b'), quote_ident('a\"B'), quote_ident('a_1')") == [
        ['"a b"', '"a""B"', "a_1"]
    ]


def test_metabase_finds_tables_columns_keys_and_what_it_may_do(one: Raw) -> None:
    tables = [row[:3] for row in one.rows(_recorded("metabase", 0))]
    assert tables == [["public", name, "TABLE"] for name in ("flights", "people", "salaries")]
    columns = {row[0]: row[1:] for row in one.rows(_recorded("metabase", 1))}
    assert columns["id"] == ["int8", "0", "t", None, "t"]
    assert columns["name"] == ["text", "1", "f", "as it is spoken", "f"]
    assert one.rows(_recorded("metabase", 3)) == [["people", "id"]]
    may = {row[2]: row[3:] for row in one.rows(_recorded("metabase", 5))}
    assert may == {name: ["t"] * 4 for name in ("flights", "people", "salaries")}


def test_the_key_is_the_primary_key(one: Raw) -> None:
    assert one.rows("SELECT conname, contype, conkey FROM pg_constraint") == [
        ["people_pkey", "p", "{1}"]
    ]
    assert one.rows(
        "SELECT pg_get_constraintdef(oid), conrelid::regclass::text FROM pg_constraint"
    ) == [["PRIMARY KEY (id)", "people"]]


def test_the_description_of_a_column_is_its_comment(one: Raw) -> None:
    sql = "SELECT col_description('people'::regclass, 2), col_description('people'::regclass, 1)"
    assert one.rows(sql) == [["as it is spoken", None]]


def test_an_object_has_the_same_number_in_each_session(people: Doors) -> None:
    numbers = set()
    for _ in range(2):
        with people.client() as one:
            numbers.update(one.rows("SELECT oid FROM pg_class WHERE relname = 'people'")[0])
    assert numbers == {str(oid_of("table", "people"))}


def test_tables_and_catalogs_can_be_read_in_one_query(one: Raw) -> None:
    sql = "SELECT count(*), max(c.relname) FROM flights, pg_class c WHERE c.relname = 'flights'"
    assert one.rows(sql) == [["1000", "flights"]]


def test_a_table_may_have_the_schema_public_before_its_name(one: Raw) -> None:
    for name in ("public.flights", '"public"."flights"', "lake.public.flights", "PUBLIC . flights"):
        assert one.rows(f"SELECT count(*) FROM {name}") == [["1000"]], name
    assert one.rows('SELECT "public"."flights"."n" FROM "public"."flights" WHERE n = 3') == [["3"]]
    assert one.fails("SELECT * FROM other.flights")["C"] == "42P01"
    assert one.rows("SELECT 'public.flights', n FROM public.flights WHERE n = 1") == [
        ["public.flights", "1"]
    ]


def test_names_within_texts_are_found(one: Raw) -> None:
    number = one.rows("SELECT 'people'::regclass::oid")[0][0]
    assert one.rows(
        "SELECT 'people'::regclass::text, 'int8'::regtype::text, format('%I.%I', 'public', 'A b'), "
        "format('%s%% %L', 1, 'it''s'), "
        "(quote_ident('public') || '.' || quote_ident('people'))::regclass, "
        "parse_ident('Public.\"A.b\"')"
    ) == [["people", "bigint", 'public."A b"', "1% 'it''s'", number, "{public,A.b}"]]


def test_a_catalog_that_there_is_not_is_one_sentence(one: Raw) -> None:
    found = one.fails("SELECT * FROM pg_catalog.pg_nothing")
    assert found["C"] == "42P01"
    assert "pg_nothing" in found["M"]
    assert "P" not in found


def test_what_clients_ask_of_the_server(one: Raw) -> None:
    (found,) = one.rows(
        "SELECT version(), current_schema(), current_schemas(true), pg_is_in_recovery(), "
        "current_setting('server_version'), pg_backend_pid() > 0, has_table_privilege('flights', "
        "'SELECT')"
    )
    assert found[0] is not None
    assert found[0].startswith("PostgreSQL 15.0")
    assert found[1:] == ["public", "{pg_catalog,public}", "f", "15.0", "t", "t"]


def test_what_has_no_counterpart_is_refused_and_never_left_out(one: Raw) -> None:
    for sql in (
        "SELECT relname FROM pg_class FOR UPDATE",
        "SELECT relname FROM pg_class WHERE (",
        f"SELECT {'(' * 3_000}1{')' * 3_000} FROM pg_class",
        f"SELECT relname FROM pg_class -- {'x' * 70_000}\n WHERE true",
    ):
        assert one.fails(sql)["C"] == "42601", sql[:60]
    assert one.rows("SELECT n FROM flights ORDER BY n FETCH FIRST 1 ROW ONLY") == [["0"]]


def test_a_column_without_an_alias_has_the_name_that_postgresql_gives_it(one: Raw) -> None:
    for sql, names in (
        ("SELECT version(), current_database(), current_schema()", "version current_database "),
        ("SELECT current_user, pg_catalog.format_type(23, NULL), 1", "current_user format_type "),
        (
            "SELECT count(*), max(oid), oid::text, '5'::int8 FROM pg_class GROUP BY oid",
            "count max ",
        ),
        ("SELECT CASE relkind WHEN 'r' THEN 1 END, coalesce(relname, '') FROM pg_class", "case "),
        ("SELECT pg_catalog.quote_ident(relname), relkind FROM pg_class", "quote_ident relkind"),
        ("SELECT to_char(current_date, 'YYYY'), 'r' = ANY('{r}') FROM pg_am", "to_char ?column?"),
    ):
        one.send(frame(b"Q", text(sql)))
        (columns,) = [body for kind, body in one.until_ready() if kind == "T"]
        assert " ".join(_names(columns)).startswith(names.strip()), sql
    assert one.rows('SELECT "current_database" FROM (SELECT current_database()) x') == [["lake"]]


def _names(body: bytes) -> list[str]:
    (count,) = struct.unpack_from("!h", body)
    names, at = [], 2
    for _ in range(count):
        end = body.index(b"\0", at)
        names.append(body[at:end].decode())
        at = end + 19
    return names


def test_the_hidden_columns_of_catalogs_are_there_and_those_of_tables_are_not(one: Raw) -> None:
    found = one.rows(
        "SELECT c.relname FROM pg_class c WHERE c.relkind = 'r' AND c.tableoid = 1259 "
        "AND pg_catalog.age(c.xmin) <= pg_catalog.age('1'::varchar::xid) ORDER BY 1"
    )
    assert found == [["flights"], ["people"], ["salaries"]]
    assert one.fails("SELECT xmin, to_char(seen, 'YYYY') FROM people")["C"] == "42703"
    (row,) = one.rows("SELECT * FROM pg_namespace WHERE nspname = 'public'")
    assert len(row) == 4


def test_a_join_within_parentheses_names_catalogs(one: Raw) -> None:
    found = one.rows(
        "SELECT a.attname FROM pg_catalog.pg_attribute a LEFT OUTER JOIN (pg_catalog.pg_depend d "
        "JOIN pg_catalog.pg_class s ON d.objid = s.oid) ON d.refobjid = a.attrelid "
        "WHERE a.attrelid = 'people'::regclass AND a.attnum <= 2 ORDER BY a.attnum"
    )
    assert found == [["id"], ["name"]]


def test_a_text_in_braces_is_a_list(one: Raw) -> None:
    sql = "SELECT count(*) FROM pg_class WHERE relname = 'people' AND relkind {}"
    for condition in ("= ANY('{r,p}')", "= ANY('{\"r\",v}'::text[])", '<> ALL (\'{i,"a \\"b"}\')'):
        assert one.rows(sql.format(condition)) == [["1"]], condition
    for condition in ("= ANY('{v}')", "= ANY('{}'::text[])", "<> ALL('{r}')"):
        assert one.rows(sql.format(condition)) == [["0"]], condition
    assert one.rows(
        "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND oid = ANY('{1,2}'::oid[])"
    ) == [["0"]]


def test_substring_takes_a_pattern(one: Raw) -> None:
    assert one.rows(
        "SELECT substring(relname from 'p(e)o'), substring(relname from 'x.*'), "
        "substring(relname from 2 for 3) FROM pg_class WHERE relname = 'people'"
    ) == [["e", None, "eop"]]


def test_the_key_is_found_by_every_catalog_of_keys(one: Raw) -> None:
    sql = "SELECT table_schema, table_name, column_name, constraint_schema, constraint_name FROM "
    found = one.rows(sql + "information_schema.constraint_column_usage")
    assert found == [["public", "people", "id", "public", "people_pkey"]]
    assert one.rows("SELECT schemaname, tablename, indexname, indexdef FROM pg_indexes") == [
        [
            "public",
            "people",
            "people_pkey",
            "CREATE UNIQUE INDEX people_pkey ON public.people USING btree (id)",
        ]
    ]


def test_functions_among_tables_are_catalogs_or_one_value(one: Raw) -> None:
    assert one.rows("SELECT setting FROM pg_show_all_settings() WHERE name = 'TimeZone'") == [
        ["UTC"]
    ]
    assert one.rows("SELECT count(*) > 50 FROM pg_get_keywords()") == [["t"]]
    assert one.rows("SELECT n, n.n FROM pg_catalog.pg_get_userbyid(10) n") == [["tester", "tester"]]


def test_a_client_that_writes_its_values_into_the_sql_gets_the_same_ones(one: Raw) -> None:
    assert one.rows(r"SELECT '\x00ff'::bytea, octet_length('\x00ff'::bytea), '\x'::bytea") == [
        [r"\x00ff", "2", r"\x"]
    ]
    assert one.rows("SELECT '{1,2}'::int2[], '{a,\"b c\",NULL}'::text[], '{}'::int[]") == [
        ["{1,2}", '{a,"b c",NULL}', "{}"]
    ]
    odd = """SELECT '{007,"NULL",null,"7"}'::text[], '{007,-1}'::int[], '{t,f}'::bool[]"""
    assert one.rows(odd) == [['{007,"NULL",NULL,7}', "{7,-1}", "{t,f}"]]
    assert one.rows("SELECT '{007,08}'::text[]") == [["{007,08}"]]
    assert one.rows("SELECT n FROM flights WHERE n = ANY('{1,2}') ORDER BY 1") == [["1"], ["2"]]


def test_the_columns_of_an_index_are_a_vector_counted_from_0(one: Raw) -> None:
    """psqlODBC and Rails cut it at its spaces, and count its places from 0."""
    key = "FROM pg_index i WHERE indrelid = 'people'::regclass"
    assert one.rows(f"SELECT indkey, indoption, indkey::text {key}") == [["1", "0", "1"]]
    assert one.rows(f"SELECT i.indkey[0], i.indkey[1], (indkey)[1 - 1] {key}") == [["1", None, "1"]]
    assert one.rows(f"SELECT 1 = ANY(i.indkey) {key}") == [["t"]]
    one.send(parse(f"SELECT indkey {key}"), bind(form=1), describe(b"P"), execute(), SYNC)
    found = dict(one.until_ready())
    assert struct.unpack_from("!i", found["T"], 2 + len("indkey") + 1 + 6)[0] == 22
    assert found["D"] == struct.pack("!hiiiIiiih", 1, 26, 1, 0, 21, 1, 0, 2, 1)


def test_psqlodbc_finds_the_primary_key(one: Raw) -> None:
    (sql,) = [sql for tool, _, sql in QUERIES if tool == "psqlodbc" and "tc.relname = '" in sql]
    assert one.rows(sql) == [["id", "1", "people_pkey", "public", "people"]]
