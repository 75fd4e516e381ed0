"""Constants are exact or they are none."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from blockstore.reader.query.sql.constants import constants_for


@pytest.fixture(scope="module")
def parser() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def node(parser: duckdb.DuckDBPyConnection, text: str) -> dict[str, Any]:
    found = parser.execute("SELECT json_serialize_sql($1::VARCHAR)", [f"SELECT {text}"]).fetchall()[
        0
    ][0]
    result: dict[str, Any] = json.loads(found)["statements"][0]["node"]["select_list"][0]
    return result


def moment(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type,misc]


INT, ID, DOUBLE, FLOAT, TEXT = pa.int32(), pa.int64(), pa.float64(), pa.float32(), pa.string()
ZONED, NAIVE, DATE, MONEY = (
    pa.timestamp("ms", "Europe/Berlin"),
    pa.timestamp("us"),
    pa.date32(),
    pa.decimal128(10, 2),
)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("5", INT, Decimal(5)),
        ("-5", INT, Decimal(-5)),
        ("5.0", INT, Decimal("5.0")),
        ("5.5", INT, None),
        ("99999999999999999999", INT, None),
        ("1e9", INT, Decimal("1e9")),
        ("9007199254740991e0", ID, Decimal(2**53 - 1)),
        ("9007199254740993e0", ID, None),
        ("9007199254740993", ID, Decimal(2**53 + 1)),
        ("9007199254740993." + "0" * 23, ID, None),
        ("'5'", INT, None),
        ("1.5", DOUBLE, Decimal("1.5")),
        ("0.1", DOUBLE, None),
        ("9007199254740993", DOUBLE, None),
        ("0.25", FLOAT, Decimal("0.25")),
        ("16777217", FLOAT, None),
        ("1.25", MONEY, Decimal("1.25")),
        ("1.255", MONEY, None),
        ("125e-2", MONEY, None),
        ("1.25" + "0" * 36, MONEY, None),
        ("1e400", DOUBLE, None),
        ("25e-2", FLOAT, Decimal("0.25")),
        ("999999999.0", MONEY, None),
        ("'it''s'", TEXT, "it's"),
        ("5", TEXT, None),
        ("true", pa.bool_(), True),
        ("1", pa.bool_(), None),
        ("NULL", INT, None),
        ("a", INT, None),
        ("5::BIGINT", INT, None),
        ("'2013-01-02'", DATE, moment(2013, 1, 2)),
        ("DATE '2013-01-02'", DATE, moment(2013, 1, 2)),
        ("'2013-01-02 10:00:00'", DATE, None),
        ("TIMESTAMP '2013-01-02 10:00:00'", DATE, moment(2013, 1, 2, 10)),
        ("'2013-01-02T10:00:00.5'", NAIVE, moment(2013, 1, 2, 10, 0, 0, 500_000)),
        ("'2013-01-02 10:00:00Z'", NAIVE, None),
        ("DATE '2013-01-02'", NAIVE, moment(2013, 1, 2)),
        ("'2013-01-02 10:00'", ZONED, moment(2013, 1, 2, 10)),
        ("'2013-01-02 10:00:00+00'", ZONED, moment(2013, 1, 2, 10)),
        ("'2013-01-02 10:00:00+02'", ZONED, None),
        ("TIMESTAMPTZ '2013-01-02 10:00:00Z'", ZONED, moment(2013, 1, 2, 10)),
        ("TIMESTAMP '2013-01-02 10:00:00Z'", ZONED, None),
        ("TRY_CAST('2013-01-02' AS DATE)", DATE, None),
        ("'2013-1-2'", DATE, None),
        ("'2013-02-31'", DATE, None),
        ("'infinity'", NAIVE, None),
        ("DATE '2013-01-02 10:00:00'", NAIVE, None),
    ],
)
def test_a_constant_is_exact_or_none(
    parser: duckdb.DuckDBPyConnection, text: str, kind: pa.DataType, value: object
) -> None:
    assert constants_for([node(parser, text)], kind) == (None if value is None else [value])


@pytest.mark.parametrize(
    ("texts", "kind", "known"),
    [
        (("9007199254740993", "9007199254740994"), ID, True),
        (("9007199254740993", "1e0"), ID, False),
        (("9007199254740993", "1." + "0" * 38), ID, False),
        (("9007199254740991", "1e0"), ID, True),
        (("1.25", "1e0"), MONEY, False),
        (("0.25", "1e0"), DOUBLE, True),
        (("1", "NULL"), INT, False),
        (("1", "a"), INT, False),
    ],
)
def test_one_double_among_the_constants_of_a_condition_makes_doubles_of_all(
    parser: duckdb.DuckDBPyConnection, texts: tuple[str, ...], kind: pa.DataType, known: bool
) -> None:
    for ordered in (texts, texts[::-1]):
        found = constants_for([node(parser, text) for text in ordered], kind)
        assert found == ([Decimal(text) for text in ordered] if known else None)
