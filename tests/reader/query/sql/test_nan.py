"""NaN in SQL: above every number, as DuckDB has it, and never hidden by bounds in which it does not
stand."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.reader.query import Engine

NAN = float("nan")
FILES = ([1.0, NAN, 2.0, None], [1.0, NAN, 1.0], [3.0, 4.0], [NAN, NAN])
QUESTIONS = (
    *(f"SELECT k FROM t WHERE x {op} {value}" for op in (">", ">=", "<", "<=", "=", "<>") for value in (1, 2, 5)),
    "SELECT k FROM t WHERE NOT x <= 5",
    "SELECT k FROM t WHERE x NOT IN (1, 2)",
    "SELECT k FROM t WHERE isnan(x)",
    "SELECT k FROM t WHERE x = 'nan'",
    "SELECT max(x) = 'nan'::DOUBLE FROM t",
    "SELECT min(x) FROM t",
    "SELECT sum(CASE WHEN x > 5 THEN 1 ELSE 0 END) FROM t",
    "SELECT count(*) FILTER (WHERE x > 5) FROM t",
    "SELECT k FROM t WHERE s.y > 5",
    "SELECT k FROM t WHERE NOT s.y < 5",
    "SELECT k FROM t ORDER BY x DESC NULLS LAST, k LIMIT 3",
)  # fmt: skip


@pytest.fixture(scope="module", params=[pa.float32(), pa.float64()], ids=str)
def engines(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engines]:
    url = str(tmp_path_factory.mktemp("nan") / "t")
    schema = pa.schema(
        [("k", pa.int64()), ("x", request.param), ("s", pa.struct([("y", request.param)]))]
    )
    table, rows = bs.create(url, schema=schema, sort_by=["k"]), []
    for number, values in enumerate(FILES):
        keys = list(range(10 * number, 10 * number + len(values)))
        rows.append(
            pa.table(
                {
                    "k": keys,
                    "x": pa.array(values, request.param),
                    "s": pa.array([{"y": value} for value in values], schema.field("s").type),
                },
                schema=schema,
            )
        )
        table.append(rows[-1])
    plain = duckdb.connect()
    plain.from_arrow(pa.concat_tables(rows)).create("t")
    with Engine({"t": table.snapshot()}) as engine:
        yield engine, plain


Engines = tuple[Engine, duckdb.DuckDBPyConnection]


@pytest.mark.parametrize("sql", QUESTIONS)
def test_the_answer_is_that_of_the_rows_themselves(engines: Engines, sql: str) -> None:
    engine, plain = engines
    found = [tuple(row.values()) for row in engine.query(sql).read_all().to_pylist()]
    assert sorted(found) == sorted(plain.execute(sql).fetchall())
