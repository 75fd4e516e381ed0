"""What drivers and mappers of other languages send, beside queries of catalogs."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa
import pytest

import blockstore as bs
from tests.reader.postgres.raw import (
    SYNC,
    Doors,
    Raw,
    bind,
    both,
    describe,
    execute,
    parse,
    row_of,
    settings_of,
)

PEOPLE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("age", pa.int32()),
        pa.field("height", pa.decimal128(5, 2)),
    ]
)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("drivers")
    asked = settings_of(folder)
    bs.create(f"{folder}/lake/people?durable=false", schema=PEOPLE, key=["id"])
    with both(asked) as made:
        yield made


@pytest.fixture
def one(own: Doors) -> Iterator[Raw]:
    with own.client() as made:
        yield made
    with own.client() as after:
        after.ask("DELETE FROM people")


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("UPDATE people SET age = age + $1 WHERE id = $2", (23, 20)),
        ("UPDATE people SET age = coalesce(age, 0) + $1 WHERE id = $2", (23, 20)),
        ("UPDATE people SET height = height * $1, name = name || $2", (1700, 25)),
        ("UPDATE people SET age = $1 WHERE id = ANY($2)", (23, 1016)),
        ("SELECT 1 FROM people WHERE id IN (SELECT id FROM people WHERE name = ANY($1))", (1009,)),
        ("DELETE FROM people WHERE id IN (SELECT id FROM people WHERE age = ANY($1))", (1007,)),
        ("DELETE FROM people WHERE id = ANY(array[$1,$2]::int8[])", (20, 20)),
        (
            (
                "INSERT INTO people (id, age) VALUES ($1, $2 + 1) ON CONFLICT (id) DO UPDATE SET "
                "age = people.age + $3 WHERE people.height > $4 RETURNING age * $5"
            ),
            (20, 20, 23, 1700, 23),
        ),
        ("INSERT INTO people (id, age) SELECT id + $1, age FROM people WHERE id = $2", (20, 20)),
        ('SELECT id FROM people WHERE id = ANY($1::"int8"[]) AND $2::json IS NULL', (1016, 114)),
    ],
)
def test_a_parameter_within_an_expression_has_the_type_beside_it(
    one: Raw, sql: str, types: tuple[int, ...]
) -> None:
    one.send(parse(sql), describe(b"S"), SYNC)
    found = dict(one.until_ready())
    assert struct.unpack(f"!h{len(types)}i", found["t"]) == (len(types), *types)


def test_what_is_counted_on_is_changed(one: Raw) -> None:
    one.ask("INSERT INTO people (id, age) VALUES (1, 5), (2, 6), (3, 7)")
    sql = "UPDATE people SET age = age + $1 WHERE id = ANY($2)"
    one.send(parse(sql), bind((b"10", b"{1,3}")), execute(), SYNC)
    one.until_ready()
    assert one.rows("SELECT age FROM people ORDER BY id") == [["15"], ["6"], ["17"]]


def test_on_conflict_may_give_the_key_the_value_that_it_has(one: Raw) -> None:
    one.ask("INSERT INTO people (id, name) VALUES (1, 'a')")
    one.ask(
        "INSERT INTO people (id, name) VALUES (1, 'b'), (2, 'c') ON CONFLICT (id) DO UPDATE SET "
        '"id" = excluded."id", "name" = EXCLUDED.name'
    )
    assert one.rows("SELECT id, name FROM people ORDER BY id") == [["1", "b"], ["2", "c"]]
    one.ask("INSERT INTO people (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET id = excluded.id")
    assert one.rows("SELECT name FROM people WHERE id = 1") == [["b"]]
    sql = "INSERT INTO people (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET id = excluded.age"
    assert "part of the key" in one.fails(sql)["M"]


def test_arrays_are_unnested_side_by_side(one: Raw) -> None:
    sql = "SELECT * FROM unnest($1::int8[], $2::text[]) WITH ORDINALITY AS t(a, b, n) ORDER BY n"
    one.send(parse(sql), bind((b"{1,2,3}", b'{x,"y, )"}')), execute(), SYNC)
    found = [row_of(body) for kind, body in one.until_ready() if kind == "D"]
    assert found == [["1", "x", "1"], ["2", "y, )", "2"], ["3", None, "3"]]
    sql = "INSERT INTO people (id, name) SELECT * FROM unnest($1::int8[], $2::text[])"
    one.send(parse(sql), bind((b"{1,2}", b"{a,NULL}")), execute(), SYNC)
    one.until_ready()
    assert one.rows("SELECT id, name FROM people ORDER BY id") == [["1", "a"], ["2", None]]
    assert one.rows("SELECT unnest([1, 2]), ',' AS s") == [["1", ","], ["2", ","]]


def test_intervals_are_written_in_the_style_that_was_set(one: Raw) -> None:
    sql = "SELECT INTERVAL 1 DAY + INTERVAL '1.5 seconds', [INTERVAL 2 HOUR]"
    assert one.rows(sql) == [["1 day 00:00:01.5", "{02:00:00}"]]
    one.ask("SET intervalstyle = iso_8601")
    assert one.rows("SHOW IntervalStyle") == [["iso_8601"]]
    assert one.rows(sql) == [["P1DT1.5S", "{PT2H}"]]
    one.send(*(parse(sql), bind(), execute(), SYNC))
    found = [row_of(body) for kind, body in one.until_ready() if kind == "D"]
    assert found == [["P1DT1.5S", "{PT2H}"]]
    assert one.fails("SET intervalstyle = sql_standard")["C"] == "22023"
    one.ask("RESET intervalstyle")
    assert one.rows(sql) == [["1 day 00:00:01.5", "{02:00:00}"]]


def test_the_time_zone_may_be_an_interval_of_nothing(one: Raw) -> None:
    one.ask("SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE")
    assert one.rows("SHOW TimeZone") == [["UTC"]]
    assert one.fails("SET TIME ZONE INTERVAL '+01:00' HOUR TO MINUTE")["C"] == "22023"


def test_a_function_of_the_session_may_be_among_tables(one: Raw) -> None:
    assert one.rows("SELECT * FROM current_schema()") == [["public"]]
    assert one.rows("SELECT * FROM current_database()") == [["lake"]]


def test_the_functions_of_types_are_found_by_their_numbers(one: Raw) -> None:
    found = one.rows(
        "SELECT t.typname, p.proname FROM pg_type AS t JOIN pg_proc AS p ON p.oid = t.typinput "
        "WHERE t.typname IN ('bool', '_bool', 'timestamptz') ORDER BY 1"
    )
    assert found == [["_bool", "array_in"], ["bool", "boolin"], ["timestamptz", "timestamptz_in"]]
