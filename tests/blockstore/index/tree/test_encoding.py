"""The bytes of leaves are the same for ever, and whatever is done to them is seen."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.errors import Corrupt
from blockstore.index import ulids
from blockstore.index.rows import LiveBlock, Rows
from blockstore.index.tree.encoding import (
    COLUMNS,
    decode_blocks,
    decode_sources,
    encode_blocks,
    encode_sources,
    packed,
    sha256_of,
    unpacked,
)
from blockstore.index.tree.split import BLOCKS, SOURCES, Rule, ends
from tests.support.examples import few
from tests.support.index_data import block, ulid

ROWS = Rows.of(
    [
        LiveBlock(meta=block(10), version=3, first_row_id=0),
        LiveBlock(
            meta=block(20, sources=(ulid(11), ulid(12))),
            version=4,
            first_row_id=10,
            excepted=frozenset([ulid(11)]),
        ),
    ]
).stored()
GOLDEN_SOURCES = "a49047eaac8b6152c9ee116ccecf24b70aeb03e29e4a6812d631036d8e867604"
GOLDEN_BLOCKS = "dfb9358b00dba8826197ece4be64ce78fc59db6d85da618f2c8a73ac9399f359"
GOLDEN_ENDS = [904, 1471, 2285, 2716, 2971]
NAMES = ulids.from_texts([ulid(1), ulid(2), ulid(3)])


def test_a_leaf_decodes_to_what_it_was_made_of() -> None:
    found = decode_blocks(encode_blocks(ROWS), "a leaf")
    assert found.equals(ROWS.select(COLUMNS.names))
    assert list(decode_sources(encode_sources(NAMES), "a leaf")) == list(NAMES)
    canonical = encode_blocks(ROWS)
    assert unpacked(packed(canonical), sha256_of(canonical), "a leaf") == canonical


def test_the_hashes_are_those_of_every_release() -> None:
    assert sha256_of(encode_sources(NAMES)) == GOLDEN_SOURCES
    assert sha256_of(encode_blocks(ROWS)) == GOLDEN_BLOCKS


def test_leaves_end_where_they_always_have() -> None:
    many = ulids.from_texts(ulid(number) for number in range(20_000))
    nothing = [0] * len(many)
    assert ends(many, nothing, BLOCKS)[:5] == GOLDEN_ENDS
    assert ends(many, nothing, SOURCES)[-1] == len(many)
    assert max(ends(many, nothing, Rule(bits=20, most=100))) == len(many)


@given(st.integers(0, 10**9), st.integers(1, 255))
def test_a_changed_byte_is_seen(place: int, flip: int) -> None:
    canonical = encode_blocks(ROWS)
    data = bytearray(packed(canonical))
    data[place % len(data)] ^= flip
    with suppress(Corrupt):
        assert unpacked(bytes(data), sha256_of(canonical), "a leaf") == canonical


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 30, 100, -1])
def test_what_is_cut_short_is_seen(cut: int) -> None:
    canonical = encode_blocks(ROWS)
    with pytest.raises(Corrupt):
        unpacked(packed(canonical)[:cut], sha256_of(canonical), "a leaf")
    with pytest.raises(Corrupt):
        decode_blocks(canonical[:cut], "a leaf")
    with pytest.raises(Corrupt):
        decode_sources(encode_sources(NAMES)[: min(cut, 40)], "a leaf")


@given(st.sets(st.integers(0, 3_000), max_size=300), st.integers(0, 3_000))
def test_one_ulid_changes_the_leaves_around_it_alone(numbers: set[int], one: int) -> None:
    rule = Rule(bits=3, most=6)

    def leaves(chosen: set[int]) -> set[tuple[int, ...]]:
        ordered = sorted(chosen)
        cut = ends(ulids.from_texts(map(ulid, ordered)), [1] * len(ordered), rule)
        return {tuple(ordered[start:stop]) for start, stop in zip([0, *cut], cut, strict=False)}

    with_, without = leaves(numbers | {one}), leaves(numbers - {one})
    edges = sorted(number for number in numbers - {one} if rule.is_end(ulid(number)))
    low = max((edge for edge in edges if edge < one), default=-1)
    high = min((edge for edge in edges if edge > one), default=10**9)
    for leaf in with_ ^ without:
        assert low < leaf[0]
        assert leaf[-1] <= high
    assert few(1)
