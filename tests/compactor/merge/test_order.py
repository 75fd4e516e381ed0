"""The order of rows: both of its representations agree with pyarrow's and with each other."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from blockstore.compactor.merge.order import RowOrder, arrange, descents, key_part
from tests.compactor.merge.tables import keyed_runs, sort_stable
from tests.support.raw_text import raw_text


@given(keyed_runs(max_runs=1))
def test_words_sort_as_pyarrow_sorts(case: tuple[list[str], list[pa.Table]]) -> None:
    keys, [table] = case
    table = table.combine_chunks()
    words = RowOrder(keys).words(table)
    assert (
        table["row"].take(pa.array(arrange(words))).to_pylist()
        == sort_stable(table, keys)["row"].to_pylist()
    )


@given(keyed_runs(max_runs=1))
def test_keys_and_words_agree_on_every_pair_of_rows(case: tuple[list[str], list[pa.Table]]) -> None:
    keys, [table] = case
    order = RowOrder(keys)
    words = list(zip(*(word.tolist() for word in order.words(table)), strict=True))
    for left in range(table.num_rows):
        for right in range(table.num_rows):
            assert (words[left] < words[right]) == (
                order.key(table, left) < order.key(table, right)
            )


@given(keyed_runs(max_runs=1))
def test_descents_are_the_rows_below_their_forerunner(
    case: tuple[list[str], list[pa.Table]],
) -> None:
    keys, [table] = case
    order = RowOrder(keys)
    listed = [order.key(table, row) for row in range(table.num_rows)]
    expected = [row for row in range(1, len(listed)) if listed[row] < listed[row - 1]]
    assert descents(order.words(table)).tolist() == expected


@given(keyed_runs(max_runs=1))
def test_position_counts_the_rows_below_and_at_a_key(
    case: tuple[list[str], list[pa.Table]],
) -> None:
    keys, [table] = case
    order = RowOrder(keys)
    table = sort_stable(table, keys)
    listed = [order.key(table, row) for row in range(table.num_rows)]
    for key in listed:
        assert order.position(table, key, after=False) == sum(other < key for other in listed)
        assert order.position(table, key, after=True) == sum(other <= key for other in listed)


def test_a_dictionary_column_orders_as_its_values() -> None:
    plain = pa.table({"k": ["b", None, "a", "c", "a"]})
    encoded = pa.table({"k": plain["k"].dictionary_encode()})
    order = RowOrder(["k"])
    assert np.array_equal(arrange(order.words(plain)), arrange(order.words(encoded)))
    assert [order.key(plain, row) for row in range(5)] == [
        order.key(encoded, row) for row in range(5)
    ]


def test_sixty_four_bits_after_a_constant_column_stay_whole() -> None:
    table = pa.table({"one": [1, 1, 1], "wide": pa.array([2**63 - 1, -(2**63), 0], pa.int64())})
    assert arrange(RowOrder(["one", "wide"]).words(table)).tolist() == [1, 2, 0]


@given(
    st.lists(
        st.tuples(*[st.integers(0, 2**bits - 1) for bits in (64, 33, 32, 17, 16)]), max_size=50
    ),
    st.data(),
)
def test_words_of_any_width_are_arranged_stably(
    rows: list[tuple[int, ...]], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    # Each value twice, so that the places of equal keys show.
    keys = [tuple(row[column] for column in chosen) for row in rows] * 2
    words = [np.array([key[at] for key in keys], dtype=np.uint64) for at in range(len(chosen))]
    assert arrange(words).tolist() == sorted(range(len(keys)), key=lambda place: keys[place])


BYTES = st.none() | st.binary(max_size=3) | st.text(max_size=2).map(str.encode)


@given(st.lists(BYTES, min_size=1, max_size=6))
def test_text_that_is_no_utf8_is_ordered_by_its_bytes_as_all_text_is(
    values: list[bytes | None],
) -> None:
    table = pa.table({"k": raw_text(values)})
    order = RowOrder(["k"])
    keys = [order.key(table, row) for row in range(len(values))]
    [words] = order.words(table)
    for left, mine in enumerate(values):
        for right, other in enumerate(values):
            below = other is None if mine is None or other is None else mine < other
            below = below and mine is not None
            assert (keys[left] < keys[right]) == below == (words[left] < words[right])
            assert (keys[left] <= keys[right]) == (not keys[right] < keys[left])
            assert (keys[left] > keys[right], keys[left] >= keys[right]) == (
                keys[right] < keys[left],
                keys[right] <= keys[left],
            )
            assert (keys[left] == keys[right]) == (mine == other)
            assert (keys[left] != keys[right]) == (mine != other)
            assert mine != other or hash(keys[left]) == hash(keys[right])
    ordered = table.take(pa.array(arrange([words])))
    for key in keys:
        assert order.position(ordered, key, after=False) == sum(other < key for other in keys)
        assert order.position(ordered, key, after=True) == sum(other <= key for other in keys)


def test_a_key_that_is_no_utf8_travels() -> None:
    """To the workers of a cluster, as the end of a range."""
    key = key_part(raw_text([b"caf\xe9"])[0])
    assert pickle.loads(pickle.dumps(key)) == key
    assert (0, "caf\xe9") < key < (0, "caf\U00010000")
    encoded = raw_text([b"caf\xe9"]).dictionary_encode()
    assert key_part(encoded[0]) == key
