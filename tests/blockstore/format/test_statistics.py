"""Statistics: bounds are bounds, for every type, also after cutting, merging and widening."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.errors import Corrupt
from blockstore.format.block import ColumnStats
from blockstore.format.statistics import (
    Tally,
    collect,
    columns_of,
    comparable,
    decode,
    encode,
    lower_bound,
    merge,
    upper_bound,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
NAN, INF = math.nan, math.inf


def stats(values: list[object], kind: pa.DataType) -> ColumnStats:
    """The statistics of one column."""
    return collect(pa.table({"a": pa.array(values, kind)}), ["a"])["a"]


def bounds(low: object, high: object, nulls: int = 0, nans: int = 0) -> ColumnStats:
    """What is expected."""
    return ColumnStats(min=low, max=high, nulls=nulls, nans=nans)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.int64(), [3, None, -(2**63)], bounds(-(2**63), 3, 1)),
        (pa.uint64(), [2**64 - 1, 1], bounds(1, 2**64 - 1)),
        (pa.bool_(), [True, False, None], bounds(False, True, 1)),
        (pa.date32(), [-1, 5], bounds(-1, 5)),
        (pa.timestamp("s", "UTC"), [-1, 5], bounds(-1, 5)),
        (pa.timestamp("ns"), [1, 2**62], bounds(1, 2**62)),
        (pa.time32("ms"), [1, 5], bounds(1, 5)),
        (pa.duration("us"), [-1, 5, None], bounds(-1, 5, 1)),
        (pa.decimal128(38, 2), [Decimal("-1.50"), Decimal("9" * 36 + ".99")],
         bounds("-1.50", "9" * 36 + ".99")),
        (pa.float64(), [1.5, NAN, None, -2.0], bounds(-2.0, 1.5, 1, 1)),
        (pa.float64(), [INF, -INF, 1.0], bounds("-Infinity", "Infinity")),
        (pa.float64(), [NAN, INF, -INF], bounds("-Infinity", "Infinity", 0, 1)),
        (pa.float32(), [0.1], bounds(0.10000000149011612, 0.10000000149011612)),
        (pa.float64(), [NAN, None], bounds(None, None, 1, 1)),
        (pa.string(), ["b", "é", None], bounds("b", "é", 1)),
        (pa.string(), ["", ""], bounds("", "")),
        (pa.binary(), [b"\xff", None], bounds(None, None, 1)),
        (pa.binary(2), [b"ab"], bounds(None, None)),
        (pa.int64(), [None, None], bounds(None, None, 2)),
        (pa.string(), [], bounds(None, None)),
    ],
)  # fmt: skip
def test_every_plain_type_has_bounds(
    kind: pa.DataType, values: list[object], expected: ColumnStats
) -> None:
    found = stats(values, kind)
    assert found == expected
    decode(kind, found.min)
    decode(kind, found.max)


def test_zero_is_written_so_that_both_zeros_lie_inside() -> None:
    for values in ([0.0], [-0.0], [0.0, -0.0]):
        found = stats(values, pa.float64())
        assert math.copysign(1, found.min) == -1  # type: ignore[arg-type]
        assert math.copysign(1, found.max) == 1  # type: ignore[arg-type]


def test_text_that_is_not_utf8_has_no_bounds() -> None:
    broken = pa.array([b"\xff\xfe", b"a", None], pa.binary()).view(pa.string())
    assert collect(pa.table({"a": broken}), ["a"])["a"] == bounds(None, None, 1)


def test_rows_are_taken_in_one_after_another() -> None:
    tally = Tally()
    for values in ([2.0, NAN], [None, -1.0], [None, None], [NAN, 1.0]):
        tally.add(pa.chunked_array([values], pa.float64()))
    assert tally.stats() == bounds(-1.0, 2.0, nulls=3, nans=2)


@pytest.mark.parametrize("first", [True, False])
def test_text_that_is_not_utf8_leaves_no_bounds_whatever_else_is_there(first: bool) -> None:
    broken = pa.chunked_array([pa.array([b"\xff\xfe"], pa.binary()).view(pa.string())])
    sound = pa.chunked_array([["a", None]])
    tally = Tally()
    for column in (broken, sound) if first else (sound, broken):
        tally.add(column)
    assert tally.stats() == bounds(None, None, nulls=1)


def test_a_long_text_is_cut_so_that_its_bounds_hold() -> None:
    found = stats(["a" * 65, "z" * 64 + "!"], pa.string())
    assert found == bounds("a" * 64, "z" * 63 + "{")


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("x" * 64, "x" * 64),
        ("x" * 65, "x" * 63 + "y"),
        ("x" * 63 + "\U0010ffff" * 2, "x" * 62 + "y"),
        ("x" * 63 + "\ud7ff" + "!", "x" * 63 + "\ue000"),
        ("\U0010ffff" * 65, None),
        ("\U0010ffff" * 64, "\U0010ffff" * 64),
    ],
)
def test_the_upper_bound_counts_up_the_last_character_that_can_be(
    text: str, bound: str | None
) -> None:
    assert upper_bound(text) == bound


@given(TEXT, TEXT)
def test_bounds_of_texts_hold_for_every_text_that_they_begin(text: str, more: str) -> None:
    low, high = lower_bound(text), upper_bound(text)
    assert low <= text
    assert len(low) <= 64
    if high is not None:
        high.encode()
        assert len(high) <= 64
        assert text <= high
        if len(text) > 64:
            assert text[:64] + more <= high


FLOATS = st.lists(st.floats(width=64) | st.none(), max_size=8)


@given(FLOATS)
def test_no_value_lies_outside_its_bounds(values: list[float | None]) -> None:
    found = stats(list(values), pa.float64())
    low, high = decode(pa.float64(), found.min), decode(pa.float64(), found.max)
    ordered = [value for value in values if value is not None and not math.isnan(value)]
    assert found.nulls == values.count(None)
    assert found.nans == len(values) - found.nulls - len(ordered)
    assert (low is None) == (not ordered)
    assert all(low <= value <= high for value in ordered)  # type: ignore[operator]


KINDS = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats()),
    (pa.string(), TEXT),
    (
        pa.decimal128(20, 3),
        st.integers(-(10**18), 10**18).map(lambda number: Decimal(number).scaleb(-3)),
    ),
]


@given(st.data())
def test_merged_statistics_are_those_of_the_rows_together(data: st.DataObject) -> None:
    kind, value = data.draw(st.sampled_from(KINDS))
    parts = data.draw(st.lists(st.lists(value | st.none(), max_size=4), min_size=1, max_size=4))
    together = merge(kind, [(stats(list(part), kind), len(part)) for part in parts])
    assert together == stats([value for part in parts for value in part], kind)


def test_a_part_whose_bounds_are_unknown_makes_the_whole_unknown() -> None:
    known, unknown, empty = bounds("a", "b"), bounds("c", None), bounds(None, None, 2)
    assert merge(pa.string(), [(known, 2), (unknown, 2)]) == bounds("a", None)
    assert merge(pa.string(), [(known, 2), (empty, 2)]) == bounds("a", "b", 2)
    assert merge(pa.string(), []) == bounds(None, None)


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (pa.int32(), pa.int64(), 7),
        (pa.float32(), pa.float64(), 0.1),
        (pa.decimal128(5, 2), pa.decimal128(38, 2), Decimal("1.25")),
    ],
)
def test_bounds_keep_their_meaning_when_the_column_is_widened(
    old: pa.DataType, new: pa.DataType, value: object
) -> None:
    found = stats([value], old)
    wide = pa.array([value], old).cast(new)[0]
    assert decode(new, found.min) == comparable(wide) == decode(new, found.max)


@pytest.mark.parametrize(
    ("kind", "stat"),
    [
        (pa.int64(), "1"), (pa.int64(), 1.0), (pa.int64(), True), (pa.float64(), "NaN"),
        (pa.float64(), True),
        (pa.float64(), INF), (pa.float64(), NAN), (pa.float64(), 10**400), (pa.bool_(), 1),
        (pa.string(), 1),
        (pa.decimal128(5, 2), 1.5), (pa.decimal128(5, 2), "x"), (pa.decimal128(5, 2), "NaN"),
        (pa.decimal128(5, 2), "Infinity"), (pa.timestamp("us"), "2020-01-01"), (pa.binary(), "x"),
        (pa.binary(), 1),
        (pa.list_(pa.int8()), 1),
    ],
)  # fmt: skip
def test_a_statistic_of_another_type_is_corrupt(kind: pa.DataType, stat: object) -> None:
    with pytest.raises(Corrupt, match="statistic"):
        decode(kind, stat)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "value"),
    [(pa.float64(), -INF), (pa.float64(), 1.5), (pa.uint64(), 2**64 - 1),
     (pa.decimal128(38, 10), Decimal("0E-10")), (pa.string(), "x")],
)  # fmt: skip
def test_encoding_and_decoding_agree(kind: pa.DataType, value: object) -> None:
    assert decode(kind, encode(kind, value)) == value  # type: ignore[arg-type]


def test_columns_with_statistics_are_the_plain_ones_of_the_first_32_and_the_sort_key() -> None:
    fields = [
        pa.field("nested", pa.list_(pa.int8())),
        *(pa.field(f"c{n}", pa.int8()) for n in range(40)),
    ]
    assert columns_of(pa.schema(fields), ["c39"]) == (*(f"c{n}" for n in range(31)), "c39")
