"""Totals that follow a table equal those that are counted anew, after any changes and merges."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.feed import changes as feed_changes
from blockstore.feed import totals
from blockstore.feed.form import Form
from blockstore.feed.totals import APP, Materialized, Wanted, materialize
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.operations.access import Access
from blockstore.operations.drop import drop_table, undrop_table
from blockstore.table import Table
from tests.blockstore.feed.test_rules import forget
from tests.blockstore.rows.lake import by_id, by_key
from tests.blockstore.rows.lake import rows_of as rows_like
from tests.compactor.run.changing import DAY_S, Changing
from tests.support.examples import few

WANTED = Wanted(by=("name",), sums=("n",), smallest=("n",), largest=("n",))


def access(table: Table) -> Access:
    return Access.of(table.bucket, table.world, table.log)


def target_of(source: Table, wanted: Wanted = WANTED) -> Table:
    schema = wanted.schema(Form.of(source.log.state).columns.visible)
    definition = Definition.create(schema, key=wanted.by)
    bucket = MemoryBucket(source.world.clock)
    return Table(bucket, source.world, index_log.create(bucket, source.world, definition))


def step(source: Table, target: Table, wanted: Wanted = WANTED) -> Materialized:
    return materialize(access(source), access(target), wanted)


def shown(table: Table) -> dict[str, tuple[Any, ...]]:
    table.poll()
    rows = table.snapshot().scan().to_table().to_pylist()
    return {row["name"]: (row["rows"], row["sum_n"], row["min_n"], row["max_n"]) for row in rows}


def counted(source: Table) -> dict[str, tuple[Any, ...]]:
    source.poll()
    found: dict[str, list[Any]] = {}
    for row in source.snapshot().scan(columns=["name", "n"]).to_table().to_pylist():
        found.setdefault(row["name"], []).append(row["n"])
    totals = {}
    for name, every in found.items():
        there = [n for n in every if n is not None]
        edges = (sum(there), min(there), max(there)) if there else (None, None, None)
        totals[name] = (len(every), *edges)
    return totals


IDS = st.integers(0, 7)
VALUES = st.dictionaries(IDS, st.integers(-3, 3), min_size=1, max_size=4)
STEP = st.one_of(
    st.tuples(st.just("insert"), st.lists(st.integers(-3, 3), min_size=1, max_size=4)),
    st.tuples(st.just("set"), VALUES),
    st.tuples(st.just("delete"), st.sets(IDS, min_size=1, max_size=3)),
    st.tuples(st.just("put"), VALUES),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("step"), st.none()),
)


@settings(max_examples=few(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(todo=st.lists(STEP, max_size=12), row_ids=st.booleans())
def test_totals_equal_those_counted_anew(todo: list[tuple[str, Any]], row_ids: bool) -> None:
    made = Changing(Path(mkdtemp()), row_ids)
    target = target_of(made.open())
    for what, given_ in [*todo, ("step", None)]:
        match what:
            case "insert":
                made.insert(given_)
            case "set":
                made.set(given_)
            case "delete":
                made.delete(given_)
            case "put":
                made.put(given_.items())
            case "compact":
                made.world.clock.sleep(DAY_S)
                made.compact()
            case _:
                step(made.open(), target)
                assert shown(target) == counted(made.open())


def test_a_step_reads_touched_groups_alone_and_counts_once() -> None:
    source = by_key()
    source.upsert(rows_like({"id": 1, "name": "a", "n": 1}, {"id": 2, "name": "b", "n": 5}))
    target = target_of(source)
    first = step(source, target)
    assert (first.source, first.groups, first.complete) == (2, 2, True)
    source.upsert(rows_like({"id": 3, "name": "b", "n": 2}))
    second = step(source, target)
    assert (second.source, second.groups, second.complete) == (3, 1, False)
    assert shown(target) == {"a": (1, 1, 1, 1), "b": (2, 7, 2, 5)}
    assert step(source, target).version is None
    jobs = [entry.job for entry in target.history() if entry.job is not None]
    assert [(job.app, job.batch) for job in jobs] == [(APP, 2), (APP, 3)]
    source.delete_rows([3, 1])
    step(source, target)
    assert shown(target) == {"b": (1, 5, 5, 5)}


def test_changes_that_are_no_longer_known_count_everything_again() -> None:
    source = by_id()
    source.append(pa.table({"name": ["a", "b"], "n": [1, 2]}))
    target = target_of(source)
    step(source, target)
    source.delete_rows([0])
    forget(source, clean=False)
    source.append(pa.table({"name": ["c"], "n": [3]}))
    assert step(source, target).complete
    assert shown(target) == counted(source) == {"b": (1, 2, 2, 2), "c": (1, 3, 3, 3)}


def another(*names: str) -> Table:
    source = by_id()
    for name in names:
        source.append(pa.table({"name": [name], "n": [1]}))
    return source


@pytest.mark.parametrize("names", [["x"], ["x", "y"], ["x", "y", "z"]])
def test_totals_of_another_history_are_left_as_they_are(names: list[str]) -> None:
    source = another("a", "b")
    target = target_of(source)
    step(source, target)
    with pytest.raises(bs.Invalid, match="totals of version 3 of another table, or of this one"):
        step(another(*names), target)
    assert shown(target) == counted(source)
    source.append(pa.table({"name": ["c"], "n": [1]}))
    assert not step(source, target).complete
    assert shown(target) == counted(source)


def test_a_source_that_was_dropped_and_created_again_is_counted_as_it_is_now(
    tmp_path: Path,
) -> None:
    url, schema = f"{tmp_path}/s", pa.schema([("name", pa.string()), ("n", pa.int64())])
    source = bs.create(url, schema=schema)
    for name in "abc":
        source.append(pa.table({"name": [name], "n": [1]}))
    target = target_of(source)
    step(source, target)
    bs.drop(url)
    source = bs.create(url, schema=schema)
    source.append(pa.table({"name": ["z"], "n": [9]}))
    assert step(source, target).complete
    assert shown(target) == {"z": (1, 9, 9, 9)}


def test_a_name_that_means_another_column_than_before_is_counted_anew() -> None:
    source = by_key()
    source.upsert(rows_like({"id": 1, "name": "a", "n": 1}, {"id": 2, "name": "b", "n": 5}))
    target = target_of(source)
    step(source, target)
    source.alter(rename={"n": "other"})
    source.alter(add=[pa.field("n", pa.int64())])
    assert step(source, target).complete
    assert shown(target) == counted(source) == dict.fromkeys("ab", (1, None, None, None))
    source.alter(rename={"n": "held"})
    source.alter(rename={"other": "n"})
    assert step(source, target).complete
    assert shown(target) == counted(source) == {"a": (1, 1, 1, 1), "b": (1, 5, 5, 5)}
    source.alter(add=[pa.field("alias", pa.string())], rename={"held": "kept"})
    columns = {"id": [1], "name": ["a"], "n": [2], "kept": [0], "alias": ["x"]}
    source.upsert(pa.table(columns))
    assert not step(source, target).complete, "no name of the totals means another column"
    source.upsert(pa.table({**columns, "id": [2], "name": ["b"], "alias": ["y"]}))
    source.alter(rename={"name": "title"})
    source.alter(rename={"alias": "name"})
    assert step(source, target).complete
    assert shown(target) == counted(source)
    assert sorted(shown(target)) == ["x", "y"]


def test_totals_of_a_source_that_was_dropped_go_on_once_it_was_brought_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = another("a", "b")
    target, counted_dropped = target_of(source), target_of(source)
    step(source, target)
    drop_table(source.log, source.world)
    with pytest.raises(bs.TableDropped):
        step(source, target)
    with monkeypatch.context() as earlier:
        # An earlier release counted the version in which it was dropped.
        for module in (totals, feed_changes):
            earlier.setattr(module, "check_there", lambda *_: None)
        assert step(source, counted_dropped).source == source.log.state.version
    undrop_table(source.log, source.world)
    source.append(pa.table({"name": ["b"], "n": [7]}))
    for one in (target, counted_dropped):
        did = step(source, one)
        assert (did.groups, did.complete) == (1, False)
        assert shown(one) == counted(source)


def test_where_it_is_not_known_whose_totals_they_are_everything_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of those that an earlier release counted."""
    source = another("a", "b")
    target = target_of(source)
    with monkeypatch.context() as earlier:
        earlier.setattr(totals, "_HISTORY", "earlier")
        step(source, target)
    assert step(source, target).version is None
    source.append(pa.table({"name": ["b"], "n": [5]}))
    assert step(source, target).complete
    assert shown(target) == counted(source)
    source.append(pa.table({"name": ["b"], "n": [5]}))
    assert not step(source, target).complete


def test_a_step_that_finds_the_same_totals_says_whose_they_are() -> None:
    source = another("a", "b")
    target = target_of(source)
    step(source, target)
    source.append(pa.table({"name": ["b"], "n": [5]}))
    source.delete_rows([2])
    assert step(source, target).source == 5
    source.append(pa.table({"name": ["b"], "n": [5]}))
    assert not step(source, target).complete


def test_nan_is_above_all_numbers() -> None:
    nan = float("nan")
    schema = pa.schema([("name", pa.string()), ("f", pa.float32())])
    source = by_id(schema=schema)
    wanted = Wanted(by=("name",), smallest=("f",), largest=("f",))
    target = target_of(source, wanted)
    source.append(
        pa.table({"name": ["a", "a", "b", "c", "d"], "f": [1, nan, 2, nan, None]}, schema)
    )
    for _ in range(2):
        step(source, target, wanted)
        target.poll()
        found = {row.pop("name"): row for row in target.snapshot().scan().to_table().to_pylist()}
        assert str(found["a"]) == "{'rows': 2, 'min_f': 1.0, 'max_f': nan}"
        assert str(found["b"]) == "{'rows': 1, 'min_f': 2.0, 'max_f': 2.0}"
        assert str(found["c"]) == "{'rows': 1, 'min_f': nan, 'max_f': nan}"
        assert str(found["d"]) == "{'rows': 1, 'min_f': None, 'max_f': None}"


@pytest.mark.parametrize("type_", [pa.duration("s"), pa.binary(), pa.binary(3)])
def test_what_has_no_order_is_refused(type_: pa.DataType) -> None:
    rows = pa.schema([("name", pa.string()), ("x", type_)])
    with pytest.raises(bs.Invalid, match=r"'x' of type .* has no order"):
        Wanted(by=("name",), smallest=("x",)).schema(rows)


def test_a_group_that_was_null_for_a_while_is_no_obstacle() -> None:
    source = by_id()
    source.append(pa.table({"name": ["a"], "n": [1]}))
    target = target_of(source)
    step(source, target)
    source.append(pa.table({"name": pa.array([None], pa.string()), "n": [2]}))
    with pytest.raises(bs.Invalid, match="a row has no name"):
        step(source, target)
    source.set_cells([{"_row_id": 1, "name": "b"}])
    step(source, target)
    assert shown(target) == {"a": (1, 1, 1, 1), "b": (1, 2, 2, 2)}


LARGE = Decimal(9 * 10**37)


@pytest.mark.parametrize("at_once", [0, 500_000])
@pytest.mark.parametrize(
    ("kind", "values", "total"),
    [
        (pa.decimal128(5, 2), [Decimal("900.00")] * 3, Decimal("2700.00")),
        (pa.decimal128(5, 2), [None, Decimal("-999.99"), Decimal("-999.99")], Decimal("-1999.98")),
        (pa.decimal128(38, 0), [LARGE, LARGE, -LARGE], LARGE),
        (pa.decimal128(5, 2), [None, None], None),
        (pa.float32(), [2.0**127, 2.0**127, 1.0], 2.0**128),
        (pa.float32(), [16777216.0, 1.0, 1.0], 16777218.0),
        (pa.int8(), [127, 127, None], 254),
        (pa.int64(), [2**62, 2**62, -(2**62)], 2**62),
    ],
)
def test_a_sum_may_be_larger_than_the_type_of_its_column(
    kind: pa.DataType, values: list[Any], total: Any, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "_AT_ONCE", at_once)
    schema = pa.schema([("name", pa.string()), ("n", kind)])
    source = by_id(schema=schema)
    for value in values:
        source.append(pa.table({"name": ["a"], "n": pa.array([value], kind)}, schema=schema))
    target = target_of(source)
    step(source, target)
    assert shown(target)["a"][:2] == (len(values), total)


def test_a_sum_of_decimals_that_does_not_fit_is_refused() -> None:
    schema = pa.schema([("name", pa.string()), ("n", pa.decimal128(38, 0))])
    source = by_id(schema=schema)
    source.append(pa.table({"name": ["a"] * 3, "n": [LARGE] * 3}, schema=schema))
    target = target_of(source)
    with pytest.raises(bs.Invalid, match="a sum does not fit"):
        step(source, target)
    assert shown(target) == {}


def test_what_cannot_be_counted_is_refused_and_nothing_is_written() -> None:
    source = by_id()
    source.append(pa.table({"name": ["a", None], "n": [1, 2]}))
    target = target_of(source)
    with pytest.raises(bs.Invalid, match="a row has no name"):
        step(source, target)
    with pytest.raises(bs.Invalid, match="is no column of the table"):
        step(source, target, Wanted(by=("other",)))
    with pytest.raises(bs.Invalid, match="not a table for these totals"):
        step(source, target, Wanted(by=("name",)))
    with pytest.raises(bs.Invalid, match="no sum"):
        step(source, target, Wanted(by=("n",), sums=("name",)))
    large = by_id()
    large.append(pa.table({"name": ["a", "a"], "n": [2**62, 2**62]}))
    with pytest.raises(bs.Invalid, match="a sum does not fit"):
        step(large, target_of(large))
    assert target.log.state.version == 1
