"""Numbers in SQL mean to the pruning what they mean to DuckDB, which compares some of them as
doubles.

The oracle is DuckDB over the rows of the bare files; each block holds one row, so that what is left
out wrongly is missed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.bucket.local import LocalBucket
from blockstore.format.definition import Definition
from blockstore.reader.query import Engine
from blockstore.world import World
from tests.blockstore.scan.tables import Lake
from tests.reader.query.lakes import snapshot_of
from tests.support.examples import few

SCHEMA = pa.schema(
    [
        ("row", pa.int16()),
        ("tiny", pa.int8()),
        ("n", pa.int32()),
        ("id", pa.int64()),
        ("u", pa.uint64()),
        ("d", pa.decimal128(20, 2)),
        ("w", pa.decimal128(38, 0)),
        ("x", pa.decimal128(38, 20)),
        ("f", pa.float64()),
        ("g", pa.float32()),
    ]
)
_NEAR = [
    0,
    1,
    5,
    127,
    1 << 24,
    1 << 31,
    1 << 53,
    10**16,
    10**17,
    1 << 62,
    1 << 63,
    10**19,
    1 << 64,
    10**22,
    1 << 90,
    10**37,
]
NUMBERS = sorted({sign * (one + by) for one in _NEAR for by in (-1, 0, 1) for sign in (1, -1)})
_SMALL = [
    "0.1",
    "0.01",
    "0.25",
    "0.5",
    "1.1",
    "0.30000000000000004",
    "0.1000000014901161",
    "123456.78",
    "8388608.5",
]
_SMALL += [
    "0.0000002384185791015625",
    "0.00000000002910383045673370361328125",
    "0.00000000023283064365386962890625",
]
FRACTIONS = [Decimal(sign + text) for text in _SMALL for sign in ("", "-")]


def values_of(field: pa.Field) -> list[Any]:
    """Those of the numbers that the column can hold."""
    kind, found = field.type, []
    for number in [*map(Decimal, NUMBERS), *FRACTIONS]:
        try:
            if pa.types.is_floating(kind):
                found.append(pa.scalar(float(number), kind).as_py())
            elif pa.types.is_decimal(kind):
                rounded = number.quantize(Decimal(1).scaleb(-kind.scale), context=Context(prec=60))
                if len(rounded.as_tuple().digits) <= kind.precision:
                    found.append(pa.scalar(rounded, kind).as_py())
            elif number == int(number):
                found.append(pa.scalar(int(number), kind).as_py())
        except (pa.ArrowInvalid, OverflowError):
            continue
    return sorted(set(found))


VALUES = {field.name: values_of(field) for field in SCHEMA if field.name != "row"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tmp_path_factory.mktemp("numbers"))


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    made = Lake(
        LocalBucket(str(folder / "t"), World.manual().clock, durable=False),
        Definition.create(SCHEMA),
    )
    for row in range(max(map(len, VALUES.values()))):
        values = {name: held[row] if row < len(held) else None for name, held in VALUES.items()}
        made.append([{"row": row, **values}])
    return Engine({"t": snapshot_of(made)}, world=World.manual())


@pytest.fixture(scope="module")
def plain(engine: Engine, folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        # A table in memory: DuckDB itself leaves nothing out of it.
        connection.execute(f"CREATE TABLE t AS FROM read_parquet('{folder}/t/**/*.parquet')")
        yield connection


def _as_double(number: Decimal) -> str:
    return f"{number.normalize(Context(prec=60)):e}"


def _scaled(number: Decimal, zeros: int) -> str:
    text = f"{number:f}"
    return text + ("" if "." in text else ".") + "0" * zeros


@st.composite
def literals(draw: st.DrawFn, column: str) -> str:
    """A number near the column's values, in one of the forms of SQL."""
    held = st.sampled_from(
        [Decimal(value) if not isinstance(value, Decimal) else value for value in VALUES[column]]
    )
    number = draw(st.one_of(held, st.sampled_from([*map(Decimal, NUMBERS), *FRACTIONS])))
    if draw(st.integers(0, 3)) == 0:
        number = Context(prec=80).add(
            number, Decimal(draw(st.sampled_from(["1", "-1", "0.5", "0.004", "1e-25", "-1e-25"])))
        )
    form = draw(st.integers(0, 5))
    if form == 0:
        return _as_double(number)
    if form == 1:
        return _scaled(number, draw(st.integers(0, 40)))
    if form == 2:
        return (
            f"{number:f}".replace("-", "- ")
            if number < 0
            else "0" * draw(st.integers(0, 45)) + f"{number:f}"
        )
    if form == 3:
        return f"({number:f})"
    return f"{number:f}"


@st.composite
def conditions(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(VALUES)))
    literal = literals(column)
    shape = draw(st.integers(0, 5))
    negation = draw(st.sampled_from(["", "NOT "]))
    if shape == 0:
        return f"{column} {negation}BETWEEN {draw(literal)} AND {draw(literal)}"
    if shape == 1:
        return (
            f"{column} {negation}IN ({', '.join(draw(st.lists(literal, min_size=1, max_size=3)))})"
        )
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    if shape == 2:
        return f"{negation}{draw(literal)} {operator} {column}"
    return f"{column} {operator} {draw(literal)}"


def rows(answer: pa.Table) -> Counter[int]:
    return Counter(answer["row"].to_pylist())


@settings(max_examples=few(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(condition=conditions())
def test_a_number_prunes_no_row_that_duckdb_finds(
    engine: Engine, plain: duckdb.DuckDBPyConnection, condition: str
) -> None:
    sql = f"SELECT row FROM t WHERE {condition}"
    try:
        expected = rows(plain.sql(sql).to_arrow_table())
    except duckdb.Error:
        # A number that the column's type cannot be brought to: what pruning leaves out may hide
        # such an error.
        return
    assert rows(engine.query(sql).read_all()) == expected


@pytest.mark.parametrize(
    ("condition", "parameters"),
    [
        ("id = 9007199254740993e0", None),
        ("id IN (9007199254740993, 5e0)", None),
        ("id BETWEEN 9007199254740993 AND 9007199254740993e0", None),
        ("id = 9007199254740993.00000000000000000000000", None),
        ("id = $1", [9007199254740992.0]),
        ("id IN (9007199254740993, $1)", [5.0]),
        ("id = $1", [Decimal("9007199254740993." + "0" * 23)]),
        ("d = 99999999999999999e0", None),
        ("d <= 99999999999999999.00000000000000000000000", None),
        ("d IN ($1, 0.25)", [1e17]),
    ],
)
def test_a_number_that_duckdb_makes_a_double_finds_all_that_is_equal_to_it_as_one(
    engine: Engine, plain: duckdb.DuckDBPyConnection, condition: str, parameters: list[Any] | None
) -> None:
    sql = f"SELECT row FROM t WHERE {condition}"
    expected = rows(plain.sql(sql, params=parameters).to_arrow_table())
    assert sum(expected.values()) > 1
    assert rows(engine.query(sql, parameters).read_all()) == expected


def test_numbers_still_leave_out_what_cannot_match(engine: Engine) -> None:
    def read(where: str, parameters: Any = None) -> int:
        with engine.run(f"SELECT count(*) FROM t WHERE {where}", parameters) as answer:
            answer.reader.read_all()
            return answer.read.chunks

    assert read("id = 9007199254740993") == 1
    assert read("id = 5e0") == 1
    assert read("id BETWEEN 4e0 AND $1", [6.0]) < 6
    assert read("d = 0.25") == 1
    assert read("f = 25e-2") == 1
    assert read("tiny > 1e9") == 0
