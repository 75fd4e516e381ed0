"""Which blocks of a listing may enter the index, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blockstore.format.block import VisibleBy
from blockstore.format.marks import MarkReason
from blockstore.index.reachable import Named
from blockstore.lifecycle.discoverable import Discoverable, discoverable
from tests.blockstore.lifecycle.blocks import ulid
from tests.blockstore.lifecycle.sights import Dir, index, sight


def found(*dirs: Dir, named: Named | None = None) -> Discoverable:
    named = named or index()
    return discoverable(sight(dirs, named), named.state)


def numbers(told: Discoverable) -> list[int]:
    return [int(meta.ulid[-4:]) for meta in told.blocks]


def test_in_the_order_of_the_cover() -> None:
    dirs = [
        Dir(number=1),
        Dir(number=2),
        Dir(number=3, sources=frozenset({3, 4})),
        Dir(number=5, sources=frozenset({6}), revision=1),
    ]
    assert numbers(found(*dirs)) == [5, 3, 1, 2]


@pytest.mark.parametrize("mark", MarkReason)
def test_a_mark_keeps_a_block_out(mark: MarkReason) -> None:
    assert numbers(found(Dir(number=1, mark=mark))) == []


@pytest.mark.parametrize(
    "special",
    [
        {"age": 0.001},
        {"visible_by": VisibleBy.INDEX},
        {"has_meta": False},
        {"has_chunk": False},
        {"garbage": True},
    ],
)
def test_only_what_is_whole_and_aged_and_visible_by_age(special: dict[str, object]) -> None:
    assert numbers(found(replace(Dir(number=1), **special))) == []  # type: ignore[arg-type]


def test_what_the_index_knows_or_refuses_stays_out() -> None:
    one = Dir(number=1)
    assert numbers(found(one, named=index(live=[one]))) == []
    assert numbers(found(one, named=index(accounted=[1]))) == []
    assert numbers(found(one, named=index(floor=1))) == []
    assert numbers(found(one, named=index(horizon=1))) == [1], "devices ship late"


def test_a_block_of_which_some_sources_are_accounted_is_named() -> None:
    told = found(Dir(number=3, sources=frozenset({1, 2})), named=index(accounted=[1]))
    assert numbers(told) == []
    assert list(told.quarantined) == [ulid(3)]
    assert "1 of its 2 sources" in told.quarantined[ulid(3)]
