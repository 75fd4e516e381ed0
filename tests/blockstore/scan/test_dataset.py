"""A snapshot as pyarrow's dataset: what others push down is applied, and skips what it can."""

from __future__ import annotations

import datetime as dt
import inspect
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blockstore as bs
from blockstore.errors import Invalid
from blockstore.predicate.guarantees import may_keep
from blockstore.predicate.prune import Bounds
from blockstore.scan.view import Scan
from tests.support.examples import few

SCHEMA = pa.schema(
    [("n", pa.int64()), ("s", pa.string()), ("at", pa.timestamp("us", "UTC")), ("f", pa.float64())]
)


def rows(first: int) -> pa.Table:
    """Two rows: the second has no text and no number."""
    at = dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=first)
    columns = [[first, first + 9], [f"k{first}", None], [at, at], [float(first), float("nan")]]
    return pa.table(columns, schema=SCHEMA)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bs.Table:
    made = bs.create(f"{tmp_path_factory.mktemp('t')}/t?durable=false", schema=SCHEMA, key="n")
    for first in range(0, 100, 10):
        made.upsert(rows(first), labels={"site": "x"} if first % 20 else None)
    made.upsert(rows(0))
    return made


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, int]]:
    """The columns of each read, and how many chunks it looked at."""
    found: list[tuple[Any, int]] = []
    read = Scan.to_reader

    def noted(self: Scan) -> pa.RecordBatchReader:
        found.append((self.columns, len(self.plan.chunks)))
        return read(self)

    monkeypatch.setattr(Scan, "to_reader", noted)
    return found


def test_it_is_read_as_any_dataset(table: bs.Table) -> None:
    found = table.snapshot().dataset()
    assert isinstance(found, pa.dataset.Dataset)
    assert found.schema.names == ["n", "s", "at", "f", "site"]
    assert found.count_rows() == 20
    assert found.count_rows(filter=pc.field("n") > 50) == 9
    assert found.to_table(columns=["site", "n"]).schema.names == ["site", "n"]
    assert found.to_table().num_rows == 20
    assert found.head(3).num_rows == 3
    assert found.head(99, columns=["n"]).num_rows == 20
    assert found.scanner(filter=pc.field("n") > 1000).to_table().schema == found.schema
    batches = list(found.to_batches(columns=["n"], batch_size=1))
    assert [batch.num_rows for batch in batches] == [1] * 20
    assert found.scanner(columns=["n"]).projected_schema == batches[0].schema
    assert found.scanner(columns=["n"]).dataset_schema == found.schema


def test_what_it_cannot_do_is_said(table: bs.Table) -> None:
    found = table.snapshot().dataset()
    with pytest.raises(Invalid, match="no fragments"):
        found.get_fragments()
    with pytest.raises(Invalid, match="a list of names"):
        found.to_table(columns={"m": pc.field("n")})
    with pytest.raises(Invalid, match="nowhere"):
        found.to_table(columns=["nowhere"])
    with pytest.raises(Invalid, match="cannot apply the expression"):
        found.to_table(filter=pc.field("nowhere") > 3)


def test_polars_pushes_columns_and_filters_down(
    table: bs.Table, looked: list[tuple[Any, int]]
) -> None:
    lazy = pl.scan_pyarrow_dataset(table.snapshot().dataset())
    found = lazy.filter((pl.col("n") > 50) & pl.col("s").is_not_null()).select("s").collect()
    assert sorted(found["s"]) == ["k60", "k70", "k80", "k90"]
    assert looked == [(["n", "s"], 5)]


def test_duckdb_pushes_columns_and_filters_down(
    table: bs.Table, looked: list[tuple[Any, int]]
) -> None:
    found = table.snapshot().dataset()
    connection = duckdb.connect()
    connection.register("found", found)
    asked = "SELECT count(*), max(s) FROM found WHERE n > 50 AND s >= 'k70'"
    assert connection.execute(asked).fetchall() == [(3, "k90")]
    assert looked == [(["s"], 3)]
    asked = "SELECT site, count(*) FROM found GROUP BY ALL ORDER BY 1"
    assert connection.execute(asked).fetchall() == [("x", 10), (None, 10)]
    assert connection.execute("SELECT count(*) FROM found").fetchall() == [(20,)]


def test_it_stays_the_snapshot_that_it_was(tmp_path: Path) -> None:
    made = bs.create(f"{tmp_path}/t?durable=false", schema=SCHEMA)
    made.append(rows(0))
    found = made.snapshot().dataset()
    made.append(rows(10))
    assert found.count_rows() == found.to_table().num_rows == 2


_N = st.integers(-5, 105)
_LEAF = st.one_of(
    st.builds(lambda op, n: op(pc.field("n"), n), st.sampled_from([pc.less, pc.greater]), _N),
    st.builds(lambda n: pc.field("n") == n, _N),
    st.builds(lambda some: pc.field("n").isin(some), st.lists(_N, min_size=1, max_size=3)),
    st.builds(lambda n: pc.field("n") + 1 > n, _N),
    st.builds(lambda s: pc.field("s") >= s, st.sampled_from(["", "k2", "k30", "k95", "z"])),
    st.builds(lambda s: pc.field("s") == s, st.sampled_from(["k0", "k30", "no"])),
    st.builds(lambda f: pc.field("f") < f, st.floats(-1, 101)),
    st.builds(
        lambda day: pc.field("at") <= dt.datetime(2024, 2, day, tzinfo=dt.UTC), st.integers(1, 28)
    ),
    st.sampled_from(
        [pc.field("s").is_null(), pc.field("s").is_valid(), pc.is_nan(pc.field("f")),
         pc.field("site") == "x", pc.field("site").is_null(), pc.scalar(True)]
    ),
)  # fmt: skip
_EXPRESSION = st.recursive(
    _LEAF,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=4,
)


@settings(max_examples=few(150), deadline=None)
@given(expression=_EXPRESSION)
def test_no_row_is_lost_by_what_is_skipped(table: bs.Table, expression: pc.Expression) -> None:
    everything = table.snapshot().scan().to_table()
    found = table.snapshot().scan(where=expression).to_table()
    assert sorted(found["n"].to_pylist()) == sorted(everything.filter(expression)["n"].to_pylist())


def test_bounds_that_are_not_known_skip_nothing() -> None:
    schema = pa.schema([("n", pa.int64()), ("f", pa.float64())])
    sets = [
        {},
        {"n": Bounds(rows=2)},
        {"n": Bounds(rows=2, low=1, high=4, nulls=0)},
        {"n": Bounds(rows=2, low=1, high=4)},
        {"n": Bounds(rows=2, low=1, nulls=0)},
        {"n": Bounds(rows=2, nulls=2)},
        {"n": Bounds(rows=2, low=9, high=9, nulls=0)},
    ]
    assert may_keep(pc.field("n") > 5, schema, sets) == [0, 1, 4, 6]
    assert may_keep(pc.field("n").is_null(), schema, sets) == [0, 1, 3, 5]
    floats = [{"f": Bounds(rows=2, low=1.0, high=2.0, nulls=0, nans=nans)} for nans in (None, 1, 0)]
    assert may_keep(pc.field("f") > 5, schema, floats) == [0, 1]
    assert may_keep(pc.field("n") > 5, schema, []) == []


BELOW_PYTHON = {
    "a scanner of Arrow's own": lambda data, _: pa.dataset.Scanner.from_dataset(data).to_table(),
    "a union": lambda data, _: pa.dataset.dataset([data, data]).to_table(),
    "a join": lambda data, _: data.join(data, "n"),
    "a sort": lambda data, _: data.sort_by("n"),
    "a filter": lambda data, _: data.filter(pc.field("n") > 1),
    "another schema": lambda data, _: data.replace_schema(data.schema),
    "fragments": lambda data, _: list(data.get_fragments()),
    "an option that there is not": lambda data, _: data.to_table(flter=pc.field("n") > 1),
    "a column by its place": lambda data, _: data.to_table(filter=pc.field(0) > 1),
    "a file": lambda data, place: pa.dataset.write_dataset(data, place, format="parquet"),
}


@pytest.mark.parametrize("what", BELOW_PYTHON)
def test_what_arrow_does_below_python_is_an_error_and_no_other_rows(
    table: bs.Table, tmp_path: Path, what: str
) -> None:
    """Each of them has ended the process, or returned other rows."""
    with pytest.raises((Invalid, TypeError)):
        BELOW_PYTHON[what](table.snapshot().dataset(), tmp_path / "out")
    assert not list(tmp_path.glob("out/*"))


def test_its_members_can_be_looked_at(table: bs.Table) -> None:
    found = table.snapshot().dataset()
    assert dict(inspect.getmembers(found))["schema"] == found.schema
    assert found.take([1, 0]).num_rows == 2
    assert found.to_table(["n"]).schema.names == ["n"]


NUMBERS = pa.schema([("f", pa.float64()), ("u", pa.uint64()), ("i", pa.int64())])
ODD = [
    ~(pc.field("f") < float("nan")),
    ~(pc.field("f") <= float("nan")),
    pc.field("u").isin([1, 2]),
    pc.field("i").isin([1.0]),
]


@pytest.mark.parametrize("filter_", ODD, ids=str)
def test_a_filter_that_bounds_cannot_answer_reads_all(tmp_path: Path, filter_: Any) -> None:
    made = bs.create(f"{tmp_path}/t?durable=false", schema=NUMBERS)
    some = [
        pa.table([[1.0, None], [1, 2**64 - 1], [1, 2**53 + 1]], schema=NUMBERS),
        pa.table([[-5.0, 7.0], [2, 3], [1, 2]], schema=NUMBERS),
    ]
    for one in some:
        made.append(one)
    expected = pa.dataset.dataset(pa.concat_tables(some)).to_table(filter=filter_)
    found = made.snapshot().dataset().to_table(filter=filter_)
    assert found.sort_by("i").equals(expected.sort_by("i"))
