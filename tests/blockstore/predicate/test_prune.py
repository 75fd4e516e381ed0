"""Pruning never drops a matching row, and does drop what bounds exclude."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings

from blockstore.format.block import ColumnStats
from blockstore.format.bounds import bounds_from_statistics
from blockstore.format.statistics import collect
from blockstore.predicate import parse
from blockstore.predicate.prune import Hull
from tests.blockstore.predicate.conditions import ODD, SCHEMA, conditions, tables
from tests.support.examples import few


@settings(max_examples=few(300), deadline=None)
@given(tables(), conditions())
def test_statistics_never_drop_a_match_and_never_promise_a_miss(
    table: pa.Table, condition: str
) -> None:
    predicate = parse(condition, SCHEMA)
    stats = collect(table, SCHEMA.names)
    matches = table.filter(predicate.expression).num_rows
    if not predicate.may(bounds_from_statistics(stats, SCHEMA, table.num_rows)):
        assert matches == 0
    if predicate.must(bounds_from_statistics(stats, SCHEMA, table.num_rows)):
        assert matches == table.num_rows


@settings(max_examples=few(100), deadline=None)
@given(tables(), conditions())
def test_the_hull_holds_the_column_of_every_match(table: pa.Table, condition: str) -> None:
    predicate = parse(condition, SCHEMA)
    for name in ("i", "f", "g", "s", ODD):
        hull = predicate.hull(name)
        for value in table.filter(predicate.expression).column(name).to_pylist():
            assert not hull.empty
            if value is not None:
                value = math.inf if value != value else value
                assert hull.low is None or hull.low <= value
                assert hull.high is None or value <= hull.high


def stats_of(low: object, high: object, nulls: int = 0, nans: int = 0) -> ColumnStats:
    return ColumnStats(min=low, max=high, nulls=nulls, nans=nans)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("condition", "column", "stats", "may", "must"),
    [
        ("i > 5", "i", stats_of(1, 5), False, False),
        ("i > 5", "i", stats_of(1, 6), True, False),
        ("i > 5", "i", stats_of(6, 9), True, True),
        ("i > 5", "i", stats_of(6, 9, nulls=1), True, False),
        ("i <> 5", "i", stats_of(5, 5), False, False),
        ("i IS NULL", "i", stats_of(1, 2), False, False),
        ("i IS NULL", "i", stats_of(None, None, nulls=10), True, True),
        ("i = 1", "i", stats_of(None, None, nulls=10), False, False),
        ("i = 1", "i", stats_of(None, None, nulls=9), True, False),
        ("f > 5", "f", stats_of(1.0, 2.0), False, False),
        ("f > 5", "f", stats_of(1.0, 2.0, nans=1), True, False),
        ("f < 5", "f", stats_of(1.0, 2.0, nans=1), True, False),
        ("f > 0", "f", stats_of(1.0, "Infinity", nans=1), True, True),
        ("s LIKE 'EW%'", "s", stats_of("EWR", "EWR"), True, True),
        ("s LIKE 'EW%'", "s", stats_of("JFK", "LGA"), False, False),
        ("s LIKE 'EW%'", "s", stats_of("AAA", "EV"), False, False),
        ("s NOT LIKE 'EW%'", "s", stats_of("EWR", "EWZ"), False, False),
        ("s IN ('a', 'z')", "s", stats_of("b", "c"), False, False),
        ("t < '2013-01-01'", "t", stats_of(1356998400000000, 1356998400000001), False, False),
        ("day >= '2013-01-01'", "day", stats_of(15706, 15707), True, True),
        ("d > 2.25", "d", stats_of("-1.50", "2.25"), False, False),
    ],
)
def test_bounds_decide(
    condition: str, column: str, stats: ColumnStats, may: bool, must: bool
) -> None:
    predicate = parse(condition, SCHEMA)
    assert predicate.may(bounds_from_statistics({column: stats}, SCHEMA, 10)) is may
    assert predicate.must(bounds_from_statistics({column: stats}, SCHEMA, 10)) is must


def test_a_column_that_the_chunk_lacks_reads_as_null_and_one_without_statistics_is_unknown() -> (
    None
):
    older = pa.schema([("u", pa.uint8())])
    assert not parse("i = 1", SCHEMA).may(bounds_from_statistics({}, older, 10))
    assert parse("i IS NULL", SCHEMA).must(bounds_from_statistics({}, older, 10))
    assert parse("u = 1", SCHEMA).may(bounds_from_statistics({}, older, 10))
    assert not parse("u = 1", SCHEMA).must(bounds_from_statistics({}, older, 10))


def test_statistics_of_a_narrower_type_bound_the_wider_one() -> None:
    wider = pa.schema([("i", pa.int64())])
    stats = {"i": stats_of(1, 5)}
    assert not parse("i > 5000000000", wider).may(bounds_from_statistics(stats, SCHEMA, 10))


def test_the_hull_of_a_range_is_its_ends() -> None:
    assert parse("i BETWEEN 2 AND 7 OR i = 9", SCHEMA).hull("i") == Hull(2, 9)
    assert parse("i > 3 AND i < 2", SCHEMA).hull("i").empty
    assert parse("i > 3 OR u = 1", SCHEMA).hull("i") == Hull()
