"""Blocks of changes in entries: each version of a row is one row, so an entry adds one of each
stream at most."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blockstore.errors import Corrupt
from blockstore.format import Definition
from blockstore.format.block import BlockKind, BlockMeta, VisibleBy
from blockstore.index.added import AddedBlock
from blockstore.index.change import Create
from blockstore.index.entry import Entry, Operation
from blockstore.index.fold import fold
from blockstore.index.state import State
from tests.support.index_data import NOW, SCHEMA, block, follow, ulid

BY_KEY = Definition.create(SCHEMA, key=[SCHEMA.names[0]])
BY_ID = Definition.create(SCHEMA, row_ids=True)
NO_IDENTITY = Definition.create(SCHEMA)


def changes(number: int, **labels: str) -> BlockMeta:
    made = replace(block(number), kind=BlockKind.CHANGES, visible_by=VisibleBy.INDEX)
    return replace(made, labels=labels)


def added(table: Definition, *blocks: BlockMeta) -> State:
    """The state of a new table after one entry that adds these blocks."""
    made = follow(State.EMPTY, Create(commit=ulid(1), definition=table))
    return fold(
        made,
        Entry(
            id=2,
            commit=ulid(2),
            time=NOW,
            operation=Operation.APPEND,
            prev=made.last,
            sha256="5a" * 32,
            first_row_id=0,
            add=tuple(AddedBlock(meta=replace(one, schema_id=1)) for one in blocks),
        ),
    )


@pytest.mark.parametrize("table", [BY_KEY, BY_ID], ids=["key", "row ids"])
def test_the_changes_of_two_writes_never_share_an_entry(table: Definition) -> None:
    assert len(added(table, changes(11)).blocks.ulids()) == 1
    with pytest.raises(Corrupt, match=r"2 writes of rows with the labels \{\}, expected those"):
        added(table, changes(11), changes(12))


@pytest.mark.parametrize("table", [BY_KEY, BY_ID], ids=["key", "row ids"])
def test_an_entry_adds_the_changes_of_several_streams_once_each(table: Definition) -> None:
    state = added(table, changes(11), changes(12, site="x"), changes(13, site="y"))
    assert {block.version for block in state.blocks} == {2}
    assert [block.first_row_id for block in state.blocks] == [0, 10, 20]
    assert {stream.labels for stream in state.blocks.streams()} == {
        (),
        (("site", "x"),),
        (("site", "y"),),
    }
    with pytest.raises(Corrupt, match=r"2 writes of rows with the labels \{'site': 'x'\}"):
        added(table, changes(11), changes(12, site="x"), changes(13, site="x"))


def test_new_rows_may_share_an_entry_with_each_other_and_with_changes() -> None:
    assert len(added(BY_ID, block(11), block(12), changes(13)).blocks.ulids()) == 3


def test_changes_need_rows_that_have_an_identity() -> None:
    with pytest.raises(Corrupt, match="expected none in a table whose rows have no identity"):
        added(NO_IDENTITY, changes(11))
