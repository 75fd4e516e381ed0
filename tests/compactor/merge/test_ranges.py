"""Ranges of the leading key: disjoint, and nothing left out, also NaN and null."""

from __future__ import annotations

import io
import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.compactor.merge.order import KeyPart, key_part
from blockstore.compactor.merge.ranges import KeyRange

TIMES = pa.array([0, 5, 5, 9, None], pa.timestamp("us", tz="UTC"))
NUMBERS = pa.array([-1.5, -0.0, 0.0, 2.5, float("nan"), None])
TEXTS = pa.array(["a", "b", "ba", None])


@pytest.mark.parametrize(
    ("column", "ends"),
    [(TIMES, [(0, 5), (0, 6)]), (NUMBERS, [(0, 0.0), (0, 2.5)]), (TEXTS, [(0, "b"), (0, "bb")])],
)
def test_every_row_is_in_one_range_and_equal_keys_in_the_same(
    column: pa.Array, ends: list[KeyPart]
) -> None:
    table = pa.table({"k": column, "row": pa.array(range(len(column)))})
    bounds = [None, *ends, None]
    parts = [
        KeyRange(column="k", low=low, high=high).within(table)
        for low, high in itertools.pairwise(bounds)
    ]
    assert pa.concat_tables(parts)["row"].to_pylist() == list(range(len(column)))
    seen = [{key_part(value) for value in part["k"]} for part in parts]
    assert not seen[0] & seen[1]
    assert not seen[1] & seen[2]


def test_chunks_are_left_out_only_where_they_hold_no_row_of_the_range() -> None:
    middle = KeyRange(column="k", low=(0, 10), high=(0, 20))
    assert middle.meets((0, 0), (0, 10))
    assert middle.meets((0, 19), (2, 0))
    assert middle.meets(None, None)
    assert not middle.meets((0, 0), (0, 9))
    assert not middle.meets((0, 20), None)
    assert not middle.meets((1, 0), (2, 0))
    assert KeyRange(column="k", low=(0, 10)).meets((2, 0), (2, 0)), "the last range holds the nulls"


@pytest.mark.parametrize(
    ("values", "low", "high", "held"),
    [
        (pa.array([1, 2, 3]), (0, 4), None, False),
        (pa.array([1, 2, None]), (0, 4), None, True),
        (pa.array([1, 2, None]), (0, 4), (0, 9), False),
        (pa.array([1, 2, 3]), None, (0, 1), False),
        (pa.array([1, 2, 3]), None, (0, 2), True),
        (pa.array([1.0, float("nan")]), (0, 4.0), None, True),
        (pa.array(["a", "b"]), (0, "c"), None, False),
        (pa.array([1, 2], pa.timestamp("us", tz="UTC")), (0, 2), None, True),
        (pa.array([1, 2], pa.timestamp("us", tz="UTC")), (0, 3), None, False),
    ],
)
def test_a_row_group_is_left_out_only_where_its_statistics_exclude_the_range(
    values: pa.Array, low: KeyPart | None, high: KeyPart | None, held: bool
) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"k": values}), sink)
    group = pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata.row_group(0)
    assert KeyRange(column="k", low=low, high=high).may_hold(group, "k", values.type) is held
