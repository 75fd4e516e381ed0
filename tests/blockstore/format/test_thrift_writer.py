"""What is written in Thrift's compact protocol is what the reader reads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blockstore.format.thrift import elements_at, numbers_at, struct_at
from blockstore.format.thrift_writer import (
    Value,
    array,
    beginning,
    binary,
    encoded,
    fields,
    i32,
    i64,
    integers,
    struct,
)

Plain = int | bytes | list | dict

PLAIN = st.recursive(
    st.one_of(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=200)),
    lambda inner: st.one_of(
        st.lists(st.binary(max_size=4), min_size=1, max_size=40),
        st.dictionaries(st.integers(1, 300), inner, max_size=4),
    ),
    max_leaves=12,
)


def value(plain: Plain) -> Value:
    if isinstance(plain, int):
        return i32(plain) if -(2**31) <= plain < 2**31 else i64(plain)
    if isinstance(plain, bytes):
        return binary(plain)
    if isinstance(plain, list):
        return array(map(value, plain))
    return struct({number: value(inner) for number, inner in plain.items()})


@given(st.dictionaries(st.integers(1, 300), PLAIN, max_size=6))
def test_a_struct_comes_back(plain: dict[int, Plain]) -> None:
    data = fields({number: value(inner) for number, inner in plain.items()})
    assert struct_at(data, 0) == plain
    assert struct_at(b"xx" + data + b"yy", 2) == plain


@given(st.lists(st.dictionaries(st.integers(1, 30), st.integers(0, 99)), min_size=1, max_size=20))
def test_the_structs_of_a_list_come_back_as_they_were_encoded(plain: list[dict[int, int]]) -> None:
    parts = [fields({number: i64(inner) for number, inner in one.items()}) for one in plain]
    data = fields({1: i32(1), 2: array(map(encoded, parts)), 9: binary(b"after")})
    assert elements_at(data, 0, 2) == parts
    assert struct_at(data, 0) == {1: 1, 2: plain, 9: b"after"}


@given(st.dictionaries(st.integers(1, 300), PLAIN, max_size=8), st.integers(0, 301))
def test_a_struct_may_be_written_in_two_parts(plain: dict[int, Plain], upto: int) -> None:
    first = {number: value(inner) for number, inner in plain.items() if number <= upto}
    others = {number: value(inner) for number, inner in plain.items() if number > upto}
    data = beginning(first) + fields(others, after=max(first, default=0))
    assert data == fields({**first, **others})


@given(st.dictionaries(st.integers(1, 300), PLAIN, max_size=8))
def test_the_fields_before_the_first_struct_are_read_without_what_follows(
    plain: dict[int, Plain],
) -> None:
    listed = sorted(plain.items())
    places = [place for place, (_, inner) in enumerate(listed) if isinstance(inner, dict)]
    before = listed[: places[0]] if places else listed
    data = fields({number: value(inner) for number, inner in listed})
    found, number, at = numbers_at(b"xx" + data, 2)
    assert found == dict(before)
    assert number == (listed[places[0]][0] if places else 0)
    if places:
        assert struct_at(b"xx" + data, at) == listed[places[0]][1]


@given(st.lists(st.tuples(st.integers(1, 15), st.integers(-(2**63), 2**63 - 1)), max_size=8))
def test_a_struct_of_integers_is_written_as_any_other(steps: list[tuple[int, int]]) -> None:
    last, plain = 7, {}
    for step, number in steps:
        last += step
        plain[last] = number
    written = {number: i64(inner) for number, inner in plain.items()}
    assert integers(plain, after=7) == fields(written, after=7)
