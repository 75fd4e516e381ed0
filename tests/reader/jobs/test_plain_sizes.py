"""A batch is cut by the bytes that its values take once they are written out, and before that."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from blockstore.clock import SystemClock
from blockstore.errors import Invalid
from blockstore.reader.jobs.arrow_file import ArrowRows
from blockstore.reader.jobs.meter import Meter
from blockstore.reader.jobs.plain_sizes import MOST_BYTES, pieces, plain_sizes

TEXTS = [["a", "bb"], None, [], ["ccc", None]]
PAIRS = [[("k", "v")], None, [], [("kk", None), ("l", "ww")]]
KINDS: dict[str, tuple[pa.DataType, list[Any], list[int]]] = {
    "text": (pa.string(), ["a", None, "ccc", ""], [1, 0, 3, 0]),
    "large": (pa.large_string(), ["a", None, "ccc", ""], [1, 0, 3, 0]),
    "view": (pa.string_view(), ["a", None, "c" * 40, ""], [1, 0, 40, 0]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["aa", None, "aa", "b"], [2, 0, 2, 1]),
    "numbers": (pa.int32(), [1, None, 2, 3], [4, 4, 4, 4]),
    "flags": (pa.bool_(), [True, None, False, True], [1, 1, 1, 1]),
    "nulls": (pa.null(), [None] * 4, [8] * 4),
    "lists": (pa.list_(pa.string()), TEXTS, [7, 4, 4, 7]),
    "list views": (pa.list_view(pa.string()), TEXTS, [7, 4, 4, 7]),
    "of numbers": (pa.list_(pa.int64()), [[1, 2], None, [], [3]], [20, 4, 4, 12]),
    "equal": (pa.list_(pa.string(), 1), [["a"], ["bb"], None, [None]], [1, 2, 0, 0]),
    "maps": (pa.map_(pa.string(), pa.string()), PAIRS, [6, 4, 4, 9]),
    "structs": (
        pa.struct([("a", pa.string()), ("b", pa.int16())]),
        [{"a": "x", "b": 1}, {"a": None, "b": 2}, {"a": "yy", "b": None}, {"a": "", "b": 0}],
        [3, 2, 4, 2],
    ),
}


def each(column: pa.Array) -> list[int]:
    sizes = plain_sizes(column)
    return [sizes] * len(column) if isinstance(sizes, float) else sizes.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_the_sizes_of_rows_are_those_of_their_values(kind: str) -> None:
    type_, values, expected = KINDS[kind]
    column = pa.array(values, type_)
    assert each(column) == expected
    for start in range(len(values)):
        assert each(column.slice(start, 2)) == expected[start : start + 2]
    assert each(column.slice(0, 0)) == []


def test_runs_and_what_is_within_them() -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), pa.array(["xx", "yyy"]))
    assert [each(runs.slice(start, 3)) for start in range(3)] == [[2, 2, 3], [2, 3, 3], [3, 3, 3]]
    views = pa.ListViewArray.from_arrays([1, 0], [2, 3], pa.array(["a", "bb", "ccc"]))
    assert each(views) == [9, 10]
    within = pa.ListArray.from_arrays(pa.array([0, 5], pa.int32()), runs)
    with pytest.raises(Invalid, match="within it, which no table holds: write its runs out"):
        plain_sizes(within)
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array(["a"])])
    with pytest.raises(Invalid, match="which no table holds"):
        plain_sizes(union)


def nulls(count: int) -> pa.Array:
    """So many, without memory for each."""
    return pa.Array.from_buffers(pa.null(), count, [None])


def nulls_in_lists_of_lists() -> pa.Array:
    """One row of 2^62 nulls."""
    length = 2**31 - 1
    inner = pa.FixedSizeListArray.from_arrays(nulls(length * length), length)
    return pa.FixedSizeListArray.from_arrays(inner, length)


def lists_that_name_one_list_often() -> pa.Array:
    """Rows of 2^57 bytes: together more than 64 bits can say."""
    one = pa.ListArray.from_arrays(pa.array([0, 2**31 - 1], pa.int32()), nulls(2**31 - 1))
    many = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1 << 23, np.int8)), one)
    return pa.ListViewArray.from_arrays([0] * 60_000, [1 << 23] * 60_000, many)


def a_dictionary_of_runs() -> pa.Array:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), pa.array(["x"]))
    return pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), runs)


def a_list_of_wrapped_runs() -> pa.Array:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), pa.array(["x"]))
    kind = pa.opaque(runs.type, "runs", "somebody")
    wrapped = pa.ExtensionArray.from_storage(kind, runs)
    return pa.ListArray.from_arrays(pa.array([0, 2**31 - 1], pa.int32()), wrapped)


@pytest.mark.parametrize(
    "made",
    [
        nulls_in_lists_of_lists,
        lists_that_name_one_list_often,
        a_dictionary_of_runs,
        a_list_of_wrapped_runs,
    ],
)
def test_no_nesting_hides_a_size(made: Callable[[], pa.Array]) -> None:
    batch = pa.record_batch({"c": made()})
    tracemalloc.start()
    try:
        with pytest.raises(Invalid, match=r"once its values are written out|which no table holds"):
            next(pieces(batch))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 512 << 20


@given(
    lengths=st.lists(st.integers(0, 30), max_size=40),
    rows=st.integers(1, 10),
    most=st.integers(30, 90),
)
def test_pieces_are_the_batch_each_within_both_limits(
    lengths: list[int], rows: int, most: int
) -> None:
    texts = pa.array(["x" * length for length in lengths], pa.string())
    batch = pa.record_batch({"t": texts.dictionary_encode()})
    found = list(pieces(batch, rows, most))
    assert pa.Table.from_batches(found) == pa.Table.from_batches([batch])
    for piece in found:
        assert piece.num_rows <= rows
        assert sum(map(len, piece["t"].to_pylist())) <= most
    read = 0
    for piece, after in pairwise(found):
        read += piece.num_rows
        longer = sum(map(len, piece["t"].to_pylist())) + len(after["t"][0].as_py())
        assert longer > most or read % rows == 0, "no piece is smaller than it need be"


def test_a_row_that_is_too_large_alone_is_refused_by_its_number() -> None:
    batch = pa.record_batch({"t": pa.array(["a", "b" * 50, "c"])})
    with pytest.raises(Invalid, match=r"row 1 .* 50 bytes once its values .* may have 49: split"):
        list(pieces(batch, most=49))
    assert len(list(pieces(batch, most=50))) == 3
    assert [one.num_rows for one in pieces(batch.slice(0, 0), most=1)] == [0]


@pytest.mark.parametrize("bomb", ["dictionary", "run", "nulls", "view"])
def test_what_stands_for_terabytes_takes_none(bomb: str, tmp_path: Path) -> None:
    long = pa.array(["x" * 20_000_000])
    column = {
        "dictionary": lambda: pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(60_000, np.int32)), long
        ),
        "run": lambda: pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), long),
        "nulls": lambda: pa.ListArray.from_arrays(
            pa.array([0, 2**31 - 1], pa.int32()), nulls(2**31 - 1)
        ),
        "view": lambda: pa.ListViewArray.from_arrays([0] * 60_000, [1] * 60_000, long),
    }[bomb]()
    batch = pa.record_batch({"c": column})
    path = tmp_path / "rows"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, batch.schema) as stream:
        stream.write_batch(batch)
    assert path.stat().st_size < 50 << 20
    rows = ArrowRows(path, Meter(SystemClock(), 60), lambda: None)()
    tracemalloc.start()
    try:
        if bomb == "nulls":
            with pytest.raises(Invalid, match="has 17,179,869,180 bytes once its values"):
                next(rows)
        else:
            piece = next(rows)
            assert 0 < piece.num_rows * 20_000_000 <= MOST_BYTES
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 64 << 20
