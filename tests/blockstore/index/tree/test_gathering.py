"""Frames of leaves, gathered, are their rows one after the other, and the small columns alone are
proven like whole leaves."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.errors import Corrupt
from blockstore.index.rows import FRAME, LiveBlock, Rows
from blockstore.index.tree import gathering
from blockstore.index.tree.encoding import (
    decode_blocks,
    decode_columns,
    encode_blocks,
    packed,
    sha256_of,
)
from blockstore.index.tree.gathering import gathered
from blockstore.index.tree.leaf import Leaf
from blockstore.index.tree.loading import decoded_frame
from blockstore.index.tree.sums import BlockSums, sums_of_blocks
from tests.support.index_data import block, ulid

BLOCKS = [
    LiveBlock(
        meta=block(10 * number, sources=(ulid(number), ulid(5_000 + number))),
        version=number,
        first_row_id=7 * number,
        excepted=frozenset([ulid(number)] if number % 3 else []),
    )
    for number in range(1, 40)
]
ROWS = Rows.of(BLOCKS)
CANONICAL = encode_blocks(ROWS.stored())


def leaf() -> Leaf[BlockSums]:
    return Leaf(sha256=sha256_of(CANONICAL), generation=3, sums=sums_of_blocks(ROWS.stored()))


@given(st.lists(st.integers(0, len(BLOCKS)), max_size=5), st.sampled_from([1, 60, 1 << 30]))
def test_gathered_frames_are_one_after_the_other(cuts: list[int], most: int) -> None:
    places = [0, *sorted(cuts), len(BLOCKS)]
    frames = [
        decode_blocks(CANONICAL, "a leaf").select(FRAME.names).slice(start, stop - start)
        for start, stop in itertools.pairwise(places)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "_MOST", most)
        found = gathered(iter(frames), len(BLOCKS))
    found.validate(full=True)
    assert found.equals(ROWS.frame)
    if most == 1 << 30:
        assert {column.num_chunks for column in found.columns} == {1}


def test_nothing_is_gathered_of_no_frames() -> None:
    found = gathered([], 0)
    assert found.schema == FRAME
    assert found.equals(FRAME.empty_table())


def test_what_was_gathered_holds_no_leaf() -> None:
    frames = (decode_columns(CANONICAL, "a leaf", FRAME.names) for _ in range(2))
    found = gathered(frames, 2 * len(BLOCKS))
    assert found.get_total_buffer_size() < 2 * 2 * ROWS.frame.nbytes


def test_the_small_columns_are_those_of_the_whole_leaf() -> None:
    assert decode_columns(CANONICAL, "a leaf", FRAME.names).equals(ROWS.frame)
    assert decoded_frame(leaf(), packed(CANONICAL), "a leaf").equals(ROWS.frame)


@pytest.mark.parametrize("cut", [0, 30, 1_000, len(CANONICAL) // 2, -1])
def test_small_columns_of_what_is_cut_short_are_not_read(cut: int) -> None:
    with pytest.raises(Corrupt):
        decode_columns(CANONICAL[:cut], "a leaf", FRAME.names)
    with pytest.raises(Corrupt):
        decode_columns(CANONICAL + b"\0", "a leaf", FRAME.names)


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": 38},
        {"first": ulid(1)},
        {"min_time": 0},
        {"max_min_time": 1},
        {"rows": 1},
        {"bytes": 1},
        {"max_version": 99},
        {"excepted": 1},
        {"streams": ()},
    ],
)
def test_a_wrong_sum_over_small_columns_is_seen_without_the_others(
    wrong: dict[str, object],
) -> None:
    right = leaf()
    other = replace(right, sums=replace(right.sums, **wrong))  # type: ignore[arg-type]
    with pytest.raises(Corrupt):
        decoded_frame(other, packed(CANONICAL), "a leaf")


def test_bytes_of_another_leaf_are_seen() -> None:
    other = packed(encode_blocks(Rows.of(BLOCKS[1:]).stored()))
    with pytest.raises(Corrupt, match="SHA-256"):
        decoded_frame(leaf(), other, "a leaf")
