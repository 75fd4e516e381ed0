"""An INSERT with several rows of VALUES stores each value as DuckDB's own INSERT does: cast to its
column alone, whatever the other rows have there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.reader.statements.bound import Bound
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.door import opened
from blockstore.reader.statements.shape import Shape

LARGE = 2**53 + 1
MONEY = "12345678901234567890.0123456789"
CASES = {
    "VARCHAR": [
        "1, 2.50, 1e3, true",
        "true, 1, NULL",
        "date '2024-01-01', timestamp '2024-01-01 10:00:00'",
        "'007', 8",
        "interval '1 day', [1, 2]",
        "'a', DEFAULT, 1.50",
        "1.5, 2.50",
        "1, 22, 333",
    ],
    "BIGINT": [f"{LARGE}, 1e0", f"'{LARGE}', 1.5e0", f"{LARGE}, 0.5, true, NULL"],
    "UBIGINT": [f"{2**64 - 1}, 1e0, 3.5"],
    "INTEGER": ["1, 2, -3", "1, 2.5, -3.50", "1.4, 12345678901e-5", "true, 2"],
    "HUGEINT": [f"{10**37 + 1}, 1e0"],
    "DECIMAL(30, 10)": [f"{MONEY}, 1e0", f"1e0, '{MONEY}', DEFAULT"],
    "DECIMAL(20, 4)": [
        "1.5, 22.25, -333.3333, 4",
        "1.00005, 12345678901234.5, 99999999999999, 0.00004999",
        "0.00000000000001, 123456789012345.5",
        "1234567890123456, 1e0, 0.1",
    ],
    "DOUBLE": [
        "1.5, 22.25, 0.1, 3, -0.000000000001, 12345678901234.5",
        "0.1, 12345678901234567890.12345, 0.12345678901234567",
        "'nan', 1",
        "'inf', 1.50, true",
    ],
    "FLOAT": ["16777217, 1e0", "0.1, 1e0", "0.1, 16777217.123456, 33554433"],
    "BOOLEAN": ["true, 'false', 0, NULL"],
    "DATE": ["date '2024-01-01', timestamp '2024-01-02 10:00:00', '2024-01-03'"],
    "TIME": ["time '10:00', '11:00:00.5', timestamp '2024-01-02 12:30:00'"],
    "TIMESTAMP": ["date '2024-01-01', '2024-01-01 10:00:00.123456', timestamp '2024-01-02'"],
    "TIMESTAMP_NS": [
        "'2024-01-01 00:00:00.123456789', timestamp '2024-01-01 10:00:00'",
        "timestamp '2024-01-01 10:00:00', timestamp_ns '2024-01-01 00:00:00.123456789'",
    ],
    "TIMESTAMPTZ": ["'2024-01-01 10:00:00+02', date '2024-01-02', timestamptz '2024-01-01 00:00Z'"],
    "BLOB": [r"'\xAA\x00', 'b'::BLOB"],
    "BIGINT[]": [f"[{LARGE}], [1e0], NULL", f"[{LARGE}], [], '[7, 8]', [1.5]"],
    "VARCHAR[]": ["[1], [2.50], ['007']"],
    "STRUCT(a BIGINT, b VARCHAR)": [
        f"{{'a': {LARGE}, 'b': 1}}, {{'a': 1e0, 'b': 2.50}}",
        f"row({LARGE}, true), row(1e0, 1)",
    ],
    "MAP(VARCHAR, BIGINT)": [f"MAP {{'a': {LARGE}}}, MAP {{'b': 1e0}}, MAP {{}}"],
}
DEFAULTS = {"VARCHAR": "'none'", "DECIMAL(30, 10)": MONEY}


@pytest.fixture
def own() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        yield connection


def split(values: str) -> list[str]:
    """The values between commas that are in no brackets or quotes."""
    found, depth, quoted = [""], 0, False
    for sign in values:
        quoted ^= sign == "'"
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth and not quoted:
            found.append("")
        else:
            found[-1] += sign
    return [one.strip() for one in found]


@pytest.mark.parametrize("options", ["", " PRIMARY KEY"], ids=["plain", "key"])
@pytest.mark.parametrize(
    ("kind", "values"), [(kind, values) for kind, cases in CASES.items() for values in cases]
)
def test_each_value_is_cast_to_its_column(
    tmp_path: Path, own: duckdb.DuckDBPyConnection, kind: str, values: str, options: str
) -> None:
    default = f" DEFAULT {DEFAULTS[kind]}" if kind in DEFAULTS else ""
    create = f"CREATE TABLE v (k INTEGER{options}, c {kind}{default})"
    rows = ", ".join(f"({place}, {value})" for place, value in enumerate(split(values)))
    insert = f"INSERT INTO v (k, c) VALUES {rows}"
    for sql in (create, insert):
        own.execute(sql)
        bs.sql(str(tmp_path), sql)
    ours = bs.sql(str(tmp_path), "FROM v").to_arrow()
    query = "SELECT c::VARCHAR FROM {} ORDER BY k"
    expected = own.execute(query.format("v")).fetchall()
    assert own.execute(query.format("ours")).fetchall() == expected
    assert len(ours) == len(expected)


@pytest.mark.parametrize(
    "end",
    [
        "ON CONFLICT DO NOTHING",
        "ON CONFLICT DO UPDATE SET s = excluded.s, b = excluded.b",
        "RETURNING k",
    ],
)
@pytest.mark.parametrize("begin", ["INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE"])
@pytest.mark.parametrize("there", [False, True])
def test_so_are_those_of_conflicts(
    tmp_path: Path, own: duckdb.DuckDBPyConnection, begin: str, end: str, there: bool
) -> None:
    if "OR" in begin and "ON" in end:
        return
    for sql in (
        "CREATE TABLE v (k INTEGER PRIMARY KEY, s VARCHAR, b BIGINT)",
        *(["INSERT INTO v VALUES (1, 'old', 1)"] if there and end != "RETURNING k" else []),
        f"{begin} INTO v VALUES (1, 1, {LARGE}), (2.0, 2.50, 1e0) {end}",
        f"WITH w AS (SELECT 1) {begin} INTO v VALUES (3, true, {LARGE}), (4, 1, 1e0) {end}",
    ):
        own.execute(sql)
        bs.sql(str(tmp_path), sql)
    query = "FROM v ORDER BY k"
    found = [tuple(row.values()) for row in bs.sql(str(tmp_path), query).to_arrow().to_pylist()]
    assert found == own.execute(query).fetchall()


def test_so_are_rows_in_parentheses(tmp_path: Path, own: duckdb.DuckDBPyConnection) -> None:
    for sql in (
        "CREATE TABLE v (k INTEGER, s VARCHAR, b BIGINT)",
        f"INSERT INTO v (k, s, b) (VALUES (1, 1, {LARGE}), (2, 2.50, 1e0))",
        f"INSERT INTO v (VALUES (3, true, {LARGE}), (4, 1, 1e0))",
    ):
        own.execute(sql)
        bs.sql(str(tmp_path), sql)
    query = "FROM v ORDER BY k"
    found = [tuple(row.values()) for row in bs.sql(str(tmp_path), query).to_arrow().to_pylist()]
    assert found == own.execute(query).fetchall()


def test_so_are_parameters(tmp_path: Path) -> None:
    bs.sql(str(tmp_path), "CREATE TABLE v (k INTEGER PRIMARY KEY, b BIGINT, d DECIMAL(30, 10))")
    given: dict[str, Any] = {"x": LARGE, "y": Decimal(MONEY), "z": 1.0}
    bs.sql(str(tmp_path), "INSERT INTO v VALUES (1, $x, $y), (2, $z, $z)", **given)
    found = bs.sql(str(tmp_path), "SELECT b, d FROM v ORDER BY k").to_arrow().to_pylist()
    assert found == [{"b": LARGE, "d": Decimal(MONEY)}, {"b": 1, "d": Decimal(1)}]


VALUES: dict[str, list[tuple[Any, ...]]] = {
    "VARCHAR": [(1, 2), (1, True), (Decimal("1.50"), Decimal("2.5")), ("a", None), (1, 2.0)],
    "BIGINT": [(1, LARGE, 10**18), (LARGE, 0.0), ("7", 8), (True, 2), (Decimal("1.5"), 2, None)],
    "DECIMAL(30, 10)": [(Decimal("1.5"), Decimal("0.0000000001")), (Decimal(MONEY), 1.5)],
    "DOUBLE": [(0.1, 1.5), (0.1, 3), (Decimal("0.1"), Decimal("12345678901.5")), ("inf", 1)],
    "TIMESTAMP": [
        (dt.datetime(2024, 1, 1, 10), None),
        (dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 10)),
        ("2024-01-01", dt.date(2024, 1, 1)),
    ],
    "DATE": [(dt.date(2024, 1, 1), dt.date(1999, 1, 1)), (dt.date(2024, 1, 1), "1999-01-01")],
    "TIME": [(dt.time(10, 30), dt.time(11)), (dt.time(10, 30), "11:00")],
    "BLOB": [(b"a", b"\x00"), (b"a", "b")],
    "BIGINT[]": [([LARGE], [1]), ([LARGE], [1.0])],
}


@pytest.mark.parametrize(
    ("kind", "values"), [(kind, values) for kind, cases in VALUES.items() for values in cases]
)
def test_parameters_are_cast_one_by_one(
    tmp_path: Path, own: duckdb.DuckDBPyConnection, kind: str, values: tuple[Any, ...]
) -> None:
    given = {f"p{place}": value for place, value in enumerate(values)}
    rows = ", ".join(f"({place}, $p{place} )" for place in range(len(values)))
    for sql, parameters in (
        (f"CREATE TABLE v (k INTEGER, c {kind})", {}),
        (f"INSERT INTO v VALUES {rows}", given),
    ):
        own.execute(sql, parameters)
        bs.sql(str(tmp_path), sql, **parameters)
    ours = bs.sql(str(tmp_path), "FROM v").to_arrow()
    query = "SELECT c::VARCHAR FROM {} ORDER BY k"
    assert own.execute(query.format("ours")).fetchall() == own.execute(query.format("v")).fetchall()
    assert len(ours) == len(values)


def test_many_rows_of_plain_values_are_as_short_as_they_are_written(tmp_path: Path) -> None:
    bs.sql(str(tmp_path), "CREATE TABLE v (k INTEGER, s VARCHAR, d DECIMAL(9, 2), f DOUBLE)")
    rows = ", ".join(f"({place}, 'text {place}', {place}.5, 1e{place % 9})" for place in range(99))
    with opened(str(tmp_path)) as session:
        (text,) = session.parse(f"INSERT INTO v VALUES {rows}")
        bound = Bound.of(session.engine, text, Doing())
        (table,) = (bs.open(str(tmp_path / "v")),)
        selected = bound.selected(Shape(table.definition))
    assert len(selected.sql) < len(text.sql) + 99 * 12 + 500


def test_labels_and_ids_of_rows_stay_right(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    bs.create(str(tmp_path / "v"), schema=schema, labels={"site": "a"}, row_ids=True)
    insert = f"INSERT INTO v (n, s, site) VALUES ({LARGE}, 1, DEFAULT), (1e0, 2.50, 'a')"
    bs.sql(str(tmp_path), insert)
    found = bs.sql(str(tmp_path), "SELECT n, s, site FROM v ORDER BY s").to_arrow().to_pylist()
    assert found == [
        {"n": LARGE, "s": "1", "site": "a"},
        {"n": 1, "s": "2.50", "site": "a"},
    ]


def test_an_error_names_its_value(tmp_path: Path) -> None:
    bs.sql(str(tmp_path), "CREATE TABLE v (k INTEGER, b BIGINT)")
    for sql, place in (
        ("INSERT INTO v VALUES (1, 2),\n  (2, 'no')", (2, 7)),
        ("INSERT INTO v VALUES (1, 2),\n  (2, nowhere)", (2, 7)),
        ("INSERT INTO v VALUES (1, 2),\n  (2)", (2, 4)),
    ):
        with pytest.raises(bs.Invalid) as caught:
            bs.sql(str(tmp_path), sql)
        error: Any = caught.value
        assert (error.line, error.column) == place, str(error)
    assert bs.sql(str(tmp_path), "FROM v").to_arrow().num_rows == 0
