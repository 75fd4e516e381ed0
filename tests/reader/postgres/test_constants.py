"""Bytes in hex and lists in braces without a cast: they are what the column beside them is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from sqlglot import exp

from blockstore.reader.postgres import constants
from blockstore.reader.postgres.rewriting import listed
from blockstore.table import create
from tests.reader.postgres.raw import SYNC, Doors, Raw, bind, both, execute, parse, settings_of

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("raw", pa.binary()),
        pa.field("numbers", pa.list_(pa.int64())),
        pa.field("words", pa.list_(pa.string())),
        pa.field("by", pa.string()),
    ]
)
HEX = r"'\x00fF27'"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = Path(tmp_path_factory.mktemp("constants"))
    asked = settings_of(folder)
    create(f"{folder}/lake/things?durable=false", schema=SCHEMA, key=["id"])
    with both(asked) as made:
        yield made


@pytest.fixture
def one(opened: Doors) -> Raw:
    made = opened.client()
    made.rows("DELETE FROM things")
    return made


@pytest.mark.parametrize(
    "sql",
    [
        f"INSERT INTO things (id, name, raw) VALUES (1, {HEX}, {HEX})",
        f"INSERT INTO public.things (id, name, raw) VALUES (1,{HEX},{HEX})",
        r"INSERT INTO things (id, name, raw) VALUES (1, E'\\x00fF27', E'\\x00fF27')",
        f"INSERT INTO things (id, name, raw) SELECT 1, {HEX}, {HEX}",
        f"INSERT INTO things VALUES (1, {HEX}, {HEX}, NULL, NULL, NULL) RETURNING id",
        f"INSERT INTO things (id) VALUES (1); UPDATE things SET name={HEX},raw={HEX} WHERE id=1",
        (
            "MERGE INTO things t USING (SELECT 1 AS n) s ON t.id = s.n WHEN NOT MATCHED THEN "
            f"INSERT (id, name, raw) VALUES (s.n, {HEX}, {HEX})"
        ),
        (
            "INSERT INTO things (id) VALUES (1); MERGE INTO things t USING (SELECT 1 AS n) s "
            f"ON t.id = s.n WHEN MATCHED THEN UPDATE SET name = {HEX}, raw = {HEX}"
        ),
        (
            "INSERT INTO things (id) VALUES (1); INSERT INTO things (id) VALUES (1) "
            f"ON CONFLICT (id) DO UPDATE SET name = {HEX}, raw = {HEX}"
        ),
    ],
)
def test_hex_is_stored_as_bytes_in_a_column_of_bytes_and_as_it_is_in_one_of_texts(
    one: Raw, sql: str
) -> None:
    one.rows(sql)
    assert one.rows("SELECT id, name, raw FROM things") == [["1", r"\x00fF27", r"\x00ff27"]]


def test_hex_is_compared_as_bytes(one: Raw) -> None:
    one.rows(rf"INSERT INTO things (id, name, raw) VALUES (1, {HEX}, {HEX}), (2, 'b', '\x')")
    for condition, expected in {
        f"raw={HEX}": ["1"],
        r"(raw = E'\\x00ff27')": ["1"],
        rf"raw IN ('\x', {HEX})": ["1", "2"],
        r"raw = '\x'": ["2"],
        f"name = {HEX}": ["1"],
        f"{HEX} = raw AND name = {HEX}": ["1"],
        r"raw > '\x00' AND id < 5": ["1"],
    }.items():
        sql = f"SELECT id FROM public.things WHERE {condition} ORDER BY 1"
        assert one.rows(sql) == [[each] for each in expected], condition
    one.rows(f"DELETE FROM things WHERE raw = {HEX}")
    assert one.rows("SELECT id FROM things") == [["2"]]


def test_hex_is_compared_as_bytes_in_a_query_that_is_translated(one: Raw) -> None:
    one.rows(rf"INSERT INTO things (id, name, raw) VALUES (1, {HEX}, {HEX}), (2, 'b', '\x')")
    # By itself DuckDB takes ``by`` for a keyword.
    for condition in (f"raw = {HEX} AND by IS NULL", f"by IS NULL AND name = {HEX}"):
        assert one.rows(f"SELECT id FROM things WHERE {condition}") == [["1"]]


def test_with_parameters_beside_them(one: Raw) -> None:
    sql = f"INSERT INTO things (id, name, raw) VALUES ($1,{HEX},{HEX})"
    one.send(parse(sql), bind((b"7",)), execute(), SYNC)
    assert "E" not in [kind for kind, _ in one.until_ready()]
    sql = f"SELECT id FROM things WHERE raw={HEX} AND id=$1"
    one.send(parse(sql), bind((b"7",)), execute(), SYNC)
    assert [kind for kind, _ in one.until_ready()] == ["1", "2", "D", "C", "Z"]


def test_lists_in_braces(one: Raw) -> None:
    one.rows(
        "INSERT INTO things (id, name, numbers, words) VALUES (1, '{1,2}', '{1,NULL}', "
        """'{a,"b c",NULL,"NULL"}')"""
    )
    assert one.rows("SELECT name, numbers, words FROM things") == [
        ["{1,2}", "{1,NULL}", '{a,"b c",NULL,"NULL"}']
    ]
    assert one.rows("SELECT id FROM things WHERE numbers = '{1,NULL}' AND name='{1,2}'") == [["1"]]
    assert one.rows("SELECT id FROM things WHERE words <> '{}'") == [["1"]]
    assert one.rows("UPDATE things SET numbers = '{}' WHERE id = 1 RETURNING numbers") == [["{}"]]


def test_a_long_statement_with_json_is_not_read_for_the_types_of_its_texts(
    one: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    find = constants.dml_types
    monkeypatch.setattr(
        constants, "dml_types", lambda *given: asked.append(len(given[2].sql)) or find(*given)
    )
    rows = ",".join(f"""({at}, '{{"at":{at}}}')""" for at in range(5_000))
    one.rows(f"INSERT INTO things (id, name) VALUES {rows}")
    assert one.rows("SELECT name FROM things WHERE id = 4321") == [['{"at":4321}']]
    assert asked == []
    one.rows("INSERT INTO things (id, name) VALUES (5000, '{}')")
    assert len(asked) == 1


def test_a_long_list_compares_no_value_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(one: exp.Expression, other: object) -> bool:
        raise AssertionError("a value was compared")

    monkeypatch.setattr(exp.Expression, "__eq__", compared)
    made = listed(exp.Literal.string("{" + ",".join(map(str, range(2_000))) + "}"))
    assert made is not None
    assert [int(one.name) for one in made.expressions] == list(range(2_000))


def test_a_list_in_braces_takes_no_time_that_grows_with_more_than_its_text() -> None:
    spaces = " " * 20_000
    assert _sql_of(listed(exp.Literal.string("{" + spaces + "{}}"))) == f"'{{{spaces}{{}}}}'"
    for odd in (f"{{{spaces}}}", f'{{{spaces}"a"{spaces}, b{spaces}}}', f'{{"{spaces}}}'):
        listed(exp.Literal.string(odd))
    given = f'{{{spaces}"a b"{spaces}, c d{spaces}}}'
    assert _sql_of(listed(exp.Literal.string(given))) == "ARRAY['a b', 'c d']"


def _sql_of(node: exp.Expression | None) -> str:
    return node.sql(dialect="postgres") if node is not None else ""
