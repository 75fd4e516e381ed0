"""The leaves of a version are the same whatever happened before, and hold exactly its state."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from blockstore.index import ulids
from blockstore.index.checkpoint import decode_checkpoint, holds_state
from blockstore.index.fold import fold
from blockstore.index.state import State
from blockstore.index.tree.grow import block_leaves, source_leaves
from blockstore.index.tree.loading import leaves_of
from blockstore.index.tree.open import base_of
from blockstore.names import checkpoint_key
from tests.support.index_data import ulid
from tests.support.tiers import is_fast
from tests.support.trees import changes, empty_bucket, leaf_keys, moved, stored

HISTORIES = 12 if is_fast() else int(os.environ.get("BLOCKSTORE_HISTORIES", "24"))


def names(state: State) -> tuple[list[str], list[str]]:
    blocks = [one.leaf.sha256 for one in block_leaves(state)]
    return blocks, [one.leaf.sha256 for one in source_leaves(state)]


def asserted_equal(held: State, plain: State) -> None:
    """Every question about both has one answer."""
    assert len(held.blocks) == len(plain.blocks)
    assert held.blocks.ulids() == plain.blocks.ulids()
    for names in (("bytes", "ulid"), ("ulid", "stream", "level"), ("ulid",)):
        some = held.blocks.columns(names).to_pylist()
        assert some == plain.blocks.table().select(names).to_pylist()
    assert held.blocks == plain.blocks
    assert plain.blocks == held.blocks
    assert list(held.blocks.sources()) == list(plain.blocks.sources())
    assert list(held.accounted.array()) == list(plain.accounted.array())
    assert held.blocks.table().equals(plain.blocks.table())
    asked = [ulid(number) for number in range(990, 2_000, 3)]
    assert held.accounted.held(asked) == plain.accounted.held(asked)
    assert [one in held.accounted for one in asked] == [one in plain.accounted for one in asked]
    assert held.blocks.holding(asked) == plain.blocks.holding(asked)
    assert held.blocks.get_all(asked) == plain.blocks.get_all(asked)
    assert [one in held.blocks for one in asked] == [one in plain.blocks for one in asked]
    assert sorted(held.blocks.streams()) == sorted(plain.blocks.streams())
    assert held.blocks.only(asked) == plain.blocks.only(asked)
    places = list(range(len(plain.blocks)))[::-2]
    assert held.blocks.take(places) == plain.blocks.take(places)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_leaves_are_a_function_of_the_state(seed: int) -> None:
    """Each history writes roots at versions of its own. The leaves that grew from the last root are
    the same as leaves cut from the whole state, and a root holds exactly the fold."""
    bucket, draw = empty_bucket(), random.Random(seed)
    plain = held = moved()
    for entry in changes(seed, 32):
        plain, held = fold(plain, entry), fold(held, entry)
        if draw.random() < 0.25:
            assert names(held) == names(plain)
            held = stored(bucket, held)
            assert names(held) == names(plain)
            root = base_of(held)
            assert root is not None
            assert ([one.sha256 for one in root.blocks], [one.sha256 for one in root.sources]) == (
                names(plain)
            )
            assert root.keys <= leaf_keys(bucket)
        assert held == plain
    asserted_equal(held, plain)
    held = stored(bucket, held)
    asserted_equal(held, plain)
    data = bucket.get(checkpoint_key(plain.version)).data
    again = decode_checkpoint(data, version=plain.version, leaves=lambda: leaves_of(bucket))
    asserted_equal(again, plain)
    assert holds_state(again, plain)
    assert holds_state(again, held)


def test_a_root_of_another_state_does_not_hold_it() -> None:
    bucket, plain = empty_bucket(), moved()
    for entry in changes(7, 20):
        before, plain = plain, fold(plain, entry)
    found = stored(bucket, plain)
    assert not holds_state(found, before)
    other = fold(before, entry)
    assert holds_state(found, other)
    wrong = other.accounted.with_([ulid(999_999)])
    assert not holds_state(found, replace(other, accounted=wrong))
    assert not holds_state(
        found, replace(other, blocks=other.blocks.changed(other.blocks.ulids()[:1], ()))
    )


def test_a_floor_forgets_the_same_sources_lazily() -> None:
    bucket, plain = empty_bucket(), moved()
    for entry in changes(11, 40):
        plain = fold(plain, entry)
    held = stored(bucket, plain)
    for number in (1_010, 1_100, 1_250, 1_400):
        keep = ulids.unique(held.blocks.sources(ulid(number)), ulids.from_texts([ulid(1_011)]))
        mine = held.accounted.above(ulid(number), keep)
        full = ulids.unique(plain.blocks.sources(), ulids.from_texts([ulid(1_011)]))
        assert list(mine.array()) == list(plain.accounted.above(ulid(number), full).array())
