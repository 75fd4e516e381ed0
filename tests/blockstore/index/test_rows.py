"""Rows of live blocks: the same blocks however often and in whatever order they are requested."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.index import rows as module
from blockstore.index.rows import LiveBlock, MemoryBulk, Rows
from tests.support.index_data import block

BLOCKS = [
    LiveBlock(meta=block(number), version=number + 1, first_row_id=10 * number)
    for number in range(12)
]
STORED = Rows.of(BLOCKS).stored()


def stored() -> Rows:
    """Rows as a checkpoint gives them: no block was made yet."""
    return Rows(STORED.select(module.FRAME.names), MemoryBulk(STORED.select(module.BULK.names)))


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 5)


@given(st.lists(st.lists(st.integers(0, len(BLOCKS) - 1), max_size=9), max_size=6))
def test_what_was_made_before_makes_no_difference(asked: list[list[int]]) -> None:
    rows = stored()
    for places in asked:
        assert rows.take(places) == [BLOCKS[place] for place in places]


def test_no_more_blocks_are_kept_than_there_is_room_for() -> None:
    rows = stored()
    for start in range(len(BLOCKS)):
        rows.take(range(start, min(start + 3, len(BLOCKS))))
        assert len(rows._made) <= 5
    rows.take(range(len(BLOCKS)))
    assert len(rows._made) <= 5
    again = rows.take([11])
    assert again[0] is rows.take([11])[0]
