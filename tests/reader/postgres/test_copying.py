"""COPY: what its options mean."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import blockstore as bs
from tests.reader.postgres.raw import Doors, Raw, both, error_of, frame, query, settings_of

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("ok", pa.bool_()),
    ]
)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("copying")
    asked = settings_of(folder)
    bs.create(f"{folder}/lake/people?durable=false", schema=COLUMNS, key=["id"])
    with both(asked) as made:
        yield made


@pytest.fixture
def one(own: Doors) -> Iterator[Raw]:
    with own.client() as made:
        yield made
    with own.client() as after:
        after.ask("DELETE FROM people")


def copied(one: Raw, sql: str, *parts: bytes) -> str:
    """The tag of a COPY from the client."""
    one.send(query(sql))
    kind, body = one.next()
    assert kind == "G", error_of(body)
    one.send(*(frame(b"d", part) for part in parts), frame(b"c"))
    found = one.until_ready()
    assert found[0][0] == "C", error_of(found[0][1])
    return found[0][1][:-1].decode()


def lines(one: Raw, sql: str) -> list[str]:
    found = one.ask(sql)
    assert found[0][0] == "H", found
    return [body.decode() for kind, body in found if kind == "d"]


@pytest.mark.parametrize("options", ["(FORMAT csv, NULL '')", "CSV NULL ''", "WITH (FORMAT CSV)"])
def test_an_empty_text_as_null_is_null_and_true_is_true(one: Raw, options: str) -> None:
    assert copied(one, f"COPY people FROM STDIN {options}", b'1,,true\n2,true,\n3,"",f\n')
    rows = [["1", None, "t"], ["2", "true", None], ["3", "", "f"]]
    assert one.rows("SELECT * FROM people ORDER BY id") == rows
    sql = f"COPY (SELECT * FROM people ORDER BY id) TO STDOUT {options}"
    assert lines(one, sql) == ["1,,t\n", "2,true,\n", '3,"",f\n']


def test_an_empty_text_is_null_in_the_text_form(one: Raw) -> None:
    assert copied(one, "COPY people FROM STDIN (NULL '', DELIMITER '|')", b"1||t\n2|\\N|\n")
    assert one.rows("SELECT * FROM people ORDER BY id") == [["1", None, "t"], ["2", "N", None]]
    sql = "COPY (SELECT * FROM people ORDER BY id) TO STDOUT (NULL '', DELIMITER '|', HEADER)"
    assert lines(one, sql) == ["id|name|ok\n", "1||t\n", "2|N|\n"]


def test_an_escape_is_written_as_it_is_read(one: Raw) -> None:
    one.ask("""INSERT INTO people VALUES (1, 'a\\b"c', true)""")
    options = "(FORMAT csv, ESCAPE '\\')"
    found = lines(one, f"COPY people TO STDOUT {options}")
    assert found == ['1,"a\\\\b\\"c",t\n']
    one.ask("DELETE FROM people")
    assert copied(one, f"COPY people FROM STDIN {options}", found[0].encode()) == "COPY 1"
    assert one.rows("SELECT name FROM people") == [['a\\b"c']]


@pytest.mark.parametrize(
    "options",
    [
        "(DELIMITER '')",
        "(FORMAT csv, QUOTE '')",
        "(FORMAT csv, ESCAPE '')",
        "(FORMAT csv, ESCAPE 'ab')",
        "(FORMAT csv, NULL)",
        "(DELIMITER)",
        "(FORMAT)",
        "CSV NULL",
        "CSV DELIMITER AS",
        "(FORMAT csv, QUOTE ',')",
        "(FORMAT csv, NULL 'a,b')",
        "(FORMAT csv, NULL 'a\"b')",
        "(FORMAT csv, NULL E'a\\nb')",
        "(DELIMITER 'n')",
        "(DELIMITER '|', NULL '|')",
    ],
)
@pytest.mark.parametrize("way", ["TO STDOUT", "FROM STDIN"])
def test_an_option_that_could_be_misread_is_refused(one: Raw, options: str, way: str) -> None:
    assert one.fails(f"COPY people {way} {options}")["C"] == "42601"
