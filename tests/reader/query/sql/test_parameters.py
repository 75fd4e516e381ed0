"""Values of parameters prune as the same values do when they are written in the SQL, and never
change an answer."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from blockstore.bucket.local import LocalBucket
from blockstore.reader.query import Engine
from blockstore.world import World
from tests.blockstore.scan.tables import NOON
from tests.reader.query.lakes import everything, lake, snapshot_of
from tests.reader.query.test_engine import bag

CASES = [
    ("n = $1", [-95], "n = -95"),
    ("n BETWEEN ? AND ?", [-95, -90], "n BETWEEN -95 AND -90"),
    ("n IN ($a, $b)", {"a": -95, "b": 40}, "n IN (-95, 40)"),
    ("n > $x", {"x": Decimal("1000000000")}, "n > 1e9"),
    ("time < $1", ["2013-01-01 13:00:00"], "time < '2013-01-01 13:00:00'"),
    (
        "time < $1",
        [NOON.replace(tzinfo=None) + dt.timedelta(hours=1)],
        "time < TIMESTAMP '2013-01-01 13:00:00'",
    ),
    (
        "time < $1",
        [NOON.replace(tzinfo=dt.UTC) + dt.timedelta(hours=1)],
        "time < '2013-01-01 13:00:00+00'",
    ),
    ("time >= $1", [dt.date(2013, 1, 2)], "time >= DATE '2013-01-02'"),
    ("cluster = $1", ["eu1"], "cluster = 'eu1'"),
    ("f < $1", [-19.5], "f < -19.5"),
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    made = lake(
        LocalBucket(str(tmp_path_factory.mktemp("p") / "t"), World.manual().clock, durable=False)
    )
    return Engine({"t": snapshot_of(made)}, world=World.manual())


@pytest.mark.parametrize(("bound", "parameters", "written"), CASES)
def test_a_parameter_prunes_as_the_constant_does(
    engine: Engine, bound: str, parameters: object, written: str
) -> None:
    with engine.run(f"SELECT * FROM t WHERE {bound}", parameters) as one:
        with_parameters = one.reader.read_all()
    with engine.run(f"SELECT * FROM t WHERE {written}") as other:
        with_constants = other.reader.read_all()
    assert bag(with_parameters) == bag(with_constants)
    assert one.read == other.read
    assert one.read.chunks < 9


VALUES: list[object] = [
    -95, 0, 10**30, -0.0, 2.5, float("nan"), float("inf"), 0.1, Decimal("7.25"), Decimal("NaN"), True, None,
    "s1", "2013-01-01", "2013-01-01 12:30", "nonsense", "", b"x", dt.date(2013, 1, 1), dt.datetime(2013, 1, 1, 13),
    dt.datetime(2013, 1, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=5))), dt.time(12), dt.timedelta(1),
]  # fmt: skip


def test_pruning_by_parameters_never_changes_an_answer(engine: Engine, tmp_path: Path) -> None:
    """Every odd value against every column, beside plain DuckDB over all rows."""
    with duckdb.connect() as plain:
        plain.execute("SET TimeZone = 'UTC'")
        plain.from_arrow(everything(engine.source.snapshots(["t"])["t"])).create("t")
        compared = 0
        for column in ("n", "f", "s", "time", "extra", "cluster"):
            for value in VALUES:
                for operator in ("=", "<", ">=", "<>"):
                    sql = f"SELECT * FROM t WHERE {column} {operator} $1"
                    try:
                        expected = plain.sql(sql, params=[value]).to_arrow_table()
                    except (duckdb.Error, OSError):
                        continue
                    compared += 1
                    with engine.run(sql, [value]) as answer:
                        assert bag(answer.reader.read_all()) == bag(expected), (sql, value)
    assert compared > 200
