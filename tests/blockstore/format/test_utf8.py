"""Which rows of an array hold text that is no UTF-8: at any depth, and only in what is written."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.format.utf8 import first_not_text, holds_text
from tests.support.raw_text import raw_text

GOOD, BAD = "é".encode(), b"caf\xe9"
PAIR = pa.struct([("k", pa.string()), ("n", pa.int64())])


def is_text(value: bytes | None) -> bool:
    try:
        _ = value and value.decode()
    except UnicodeDecodeError:
        return False
    return True


def pairs(values: pa.Array, **options: object) -> pa.Array:
    return pa.StructArray.from_arrays(
        [values, pa.array(range(len(values)))], fields=list(PAIR), **options
    )


@given(
    st.lists(st.none() | st.binary(max_size=6) | st.text(max_size=6).map(str.encode)),
    st.integers(0, 4),
)
def test_the_first_row_that_is_no_text_is_found(values: list[bytes | None], start: int) -> None:
    array = raw_text([b"\xff"] * start + values)[start:]
    bad = [row for row, value in enumerate(values) if not is_text(value)]
    assert first_not_text(array) == (bad[0] if bad else None)


@pytest.mark.parametrize("place", [0, 1, 700, 2_999])
def test_one_among_many(place: int) -> None:
    values = [b"plain"] * 3_000
    values[place] = BAD
    assert first_not_text(raw_text(values)) == place
    assert first_not_text(raw_text([b"plain"] * 3_000)) is None


def test_a_character_that_is_split_between_two_values_is_no_text() -> None:
    assert first_not_text(raw_text([b"a", GOOD[:1], GOOD[1:]])) == 1


NESTED = {
    "list": (pa.ListArray.from_arrays([0, 1, 1, 3], raw_text([GOOD, b"a", BAD])), 2),
    "fixed list": (pa.FixedSizeListArray.from_arrays(raw_text([GOOD, b"a", BAD, b"b"]), 2), 1),
    "struct": (pairs(raw_text([GOOD, BAD, b"a"])), 1),
    "map key": (
        pa.MapArray.from_arrays([0, 1, 2], raw_text([GOOD, BAD]), pa.array(["a", "b"])),
        1,
    ),
    "map item": (
        pa.MapArray.from_arrays([0, 1, 2], pa.array(["a", "b"]), raw_text([GOOD, BAD])),
        1,
    ),
    "list of structs": (pa.ListArray.from_arrays([0, 2, 3], pairs(raw_text([GOOD, b"a", BAD]))), 1),
    "dictionary": (pa.DictionaryArray.from_arrays(pa.array([0, 0, 1]), raw_text([GOOD, BAD])), 2),
}


@pytest.mark.parametrize(("array", "row"), NESTED.values(), ids=NESTED.keys())
def test_nested_text_is_looked_at_and_only_that_of_the_rows_asked_for(
    array: pa.Array, row: int
) -> None:
    assert holds_text(array.type)
    assert first_not_text(array) == row
    assert first_not_text(array.slice(0, row)) is None
    assert first_not_text(array.slice(row)) == 0
    assert first_not_text(array.slice(row + 1)) is None


HIDDEN = {
    "null": pa.Array.from_buffers(
        pa.string(), 2, [pa.py_buffer(b"\x02"), *raw_text([BAD, b"a"]).buffers()[1:]]
    ),
    "null struct": pairs(raw_text([BAD, b"a"]), mask=pa.array([True, False])),
    "null list": pa.ListArray.from_arrays(
        [0, 1, 2], raw_text([BAD, b"a"]), mask=pa.array([True, False])
    ),
    "null map": pa.MapArray.from_arrays(
        [0, 1, 2], raw_text([BAD, b"a"]), pa.array([1, 2]), mask=pa.array([True, False])
    ),
    "unused dictionary value": pa.DictionaryArray.from_arrays(
        pa.array([1, 1]), raw_text([BAD, b"a"])
    ),
}


@pytest.mark.parametrize("array", HIDDEN.values(), ids=HIDDEN.keys())
def test_what_lies_under_a_null_is_not_written_and_not_looked_at(array: pa.Array) -> None:
    assert first_not_text(array) is None


def test_other_types_hold_no_text() -> None:
    for kind in (pa.int64(), pa.binary(), pa.list_(pa.binary()), pa.struct([("n", pa.int8())])):
        assert not holds_text(kind)


def test_nothing_is_text() -> None:
    assert first_not_text(raw_text([])) is None
    assert first_not_text(raw_text([None, None])) is None
    assert first_not_text(pa.nulls(3, pa.list_(pa.string()))) is None
