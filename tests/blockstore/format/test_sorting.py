"""The order inside a chunk: ascending, NaN after numbers, null last, stable; order that is there is
seen."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.format.sorting import is_sorted, sort_order

NAN = float("nan")


def test_nan_stands_after_numbers_and_null_after_nan() -> None:
    rows = pa.table({"a": pa.array([None, NAN, 1.0, float("inf"), -0.0])})
    order = sort_order(rows, ["a"])
    assert order is not None
    assert order.to_pylist() == [4, 2, 3, 1, 0]


def test_texts_are_ordered_by_their_bytes() -> None:
    rows = pa.table({"a": ["\U0001f600", "\uffee", "é", "z", "Z", ""]})
    order = sort_order(rows, ["a"])
    assert order is not None
    texts = rows.take(order)["a"].to_pylist()
    assert texts == sorted(texts, key=str.encode)


@pytest.mark.parametrize(
    ("columns", "seen"),
    [
        ({"a": [1, 1, 2], "b": [1, 2, 1]}, True),
        ({"a": [1, 1, 2], "b": [2, 1, 1]}, False),
        ({"a": [2, 1], "b": [1, 2]}, False),
        ({"a": ["x", "y"], "b": [2, 1]}, True),
        ({"a": [1.0, 2.0], "b": [1, 2]}, None),
        ({"a": [1, 1], "b": [1, None]}, None),
    ],
)
def test_order_is_seen_where_a_look_can_tell(
    columns: dict[str, list[object]], seen: bool | None
) -> None:
    assert is_sorted(pa.table(columns), ["a", "b"]) is seen


@pytest.mark.parametrize("values", [[1.0, 2.0, NAN, None], [None, None], [3.0], []])
def test_what_is_in_order_is_left_alone_even_where_only_a_sort_can_tell(
    values: list[float | None],
) -> None:
    assert sort_order(pa.table({"a": pa.array(values, pa.float64())}), ["a"]) is None


def test_without_a_key_nothing_is_sorted() -> None:
    assert sort_order(pa.table({"a": [2, 1]}), []) is None


KEYS = st.lists(
    st.tuples(st.integers(0, 3) | st.none(), st.sampled_from(["", "a", "b"])), max_size=12
)


@given(KEYS, st.integers(0, 12))
def test_sorting_is_stable_and_right_for_any_rows_in_any_pieces(
    keys: list[tuple[int | None, str]], cut: int
) -> None:
    whole = pa.table(
        {
            "a": pa.array([a for a, _ in keys], pa.int8()),
            "b": pa.array([b for _, b in keys], pa.string()),
        }
    )
    rows = pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])
    order = sort_order(rows, ["a", "b"])
    found = list(range(len(keys))) if order is None else order.to_pylist()
    assert found == sorted(
        range(len(keys)), key=lambda at: (keys[at][0] is None, keys[at][0] or 0, keys[at][1])
    )
