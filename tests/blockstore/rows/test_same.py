"""Which values count as the same, by their bits and within nested ones too."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from blockstore.rows.same import same_rows

NAN = float("nan")
_FLOATS = pa.list_(pa.float64())

GROUPS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "floats": (pa.float32(), [0.0, -0.0, NAN, 1.0, None]),
    "list": (_FLOATS, [[], [0.0], [-0.0], [NAN], [None], [0.0, 0.0], [0.0, -0.0], None]),
    "list of lists": (pa.list_(_FLOATS), [[], [[]], [[], []], [[0.0]], [[-0.0]], [None], None]),
    "list of two": (pa.list_(pa.float64(), 2), [[0.0, 1.0], [-0.0, 1.0], [0.0, None], None]),
    "large list": (pa.large_list(pa.float32()), [[], [0.0], [-0.0], [NAN], [None], None]),
    "struct": (
        pa.struct([("x", pa.float64()), ("y", _FLOATS)]),
        [
            None,
            {"x": None, "y": None},
            {"x": 0.0, "y": None},
            {"x": -0.0, "y": None},
            {"x": None, "y": []},
            {"x": None, "y": [NAN]},
            {"x": NAN, "y": [NAN]},
        ],
    ),
    "map": (
        pa.map_(pa.string(), pa.float64()),
        [
            None,
            [],
            [("a", 0.0)],
            [("a", -0.0)],
            [("b", 0.0)],
            [("a", None)],
            [("a", 0.0), ("b", NAN)],
            [("b", NAN), ("a", 0.0)],
        ],
    ),
    "structs": (
        pa.list_(pa.struct([("x", pa.float64())])),
        [[], [None], [{"x": None}], [{"x": 0.0}], [{"x": -0.0}], None],
    ),
    "moments": (pa.list_(pa.timestamp("us")), [[datetime(2024, 1, 1)], [None], None]),
    "texts": (pa.list_(pa.string()), [["a"], ["b"], [""], ["a", "b"], ["ab"], None]),
    "bytes": (pa.list_(pa.binary(2)), [[b"aa"], [b"ab"], [None], None]),
    "flags": (pa.list_(pa.bool_()), [[True], [False], [None], [True, False], None]),
}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("sliced", [False, True])
def test_a_value_is_the_same_as_itself_only(group: str, sliced: bool) -> None:
    kind, values = GROUPS[group]
    pairs = list(itertools.product(range(len(values)), repeat=2))
    one, other = (pa.array([values[pair[side]] for pair in pairs], kind) for side in (0, 1))
    expected = [first == second for first, second in pairs]
    if sliced:
        one = pa.concat_arrays([other[:3], one]).slice(3)
        other = pa.concat_arrays([one, other]).slice(len(pairs))
        one, other, expected = one[1:-2], other[1:-2], expected[1:-2]
    rows, there = pa.record_batch([one], ["v"]), pa.record_batch([other], ["v"])
    assert same_rows(rows, there, ["v"]).to_pylist() == expected
    assert same_rows(rows.slice(0, 0), there.slice(0, 0), ["v"]).to_pylist() == []


def test_what_is_beneath_a_null_does_not_count() -> None:
    gone = pa.array([True, False])
    one, other = (
        pa.record_batch(
            {
                "s": pa.StructArray.from_arrays([pa.array([value, 1.0])], ["x"], mask=gone),
                "l": pa.ListArray.from_arrays(
                    [0, length, length + 1], pa.array([value] * length + [1.0]), mask=gone
                ),
            }
        )
        for value, length in ((0.0, 1), (-0.0, 2))
    )
    assert same_rows(one, other, ["s", "l"]).to_pylist() == [True, True]


def test_digits_below_a_microsecond_within_a_list() -> None:
    """No Python object holds them."""
    one, other = (
        pa.record_batch({"v": pa.array([[0], [value]], pa.list_(pa.int64()))}) for value in (1, 2)
    )
    kind = pa.schema([("v", pa.list_(pa.timestamp("ns")))])
    assert same_rows(one.cast(kind), other.cast(kind), ["v"]).to_pylist() == [True, False]
