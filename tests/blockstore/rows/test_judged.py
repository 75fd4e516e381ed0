"""What was judged when an operation was planned is judged again at its commit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blockstore.errors import Conflict
from blockstore.format.block import BlockKind, ColumnStats
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.rows.judged import Judged, oldest_version
from blockstore.table import Table
from tests.blockstore.rows.lake import by_key, rows_of


def merged(
    table: Table, *, versions: tuple[int, int] | None, sources: tuple[str, ...]
) -> LiveBlock:
    """A block of level 2 that came in by the next entry."""
    block = next(iter(table.log.state.blocks))
    columns = {} if versions is None else {"_version": ColumnStats(*versions, 0)}
    files = tuple(replace(file, columns=columns) for file in block.meta.files)
    ulid = table.world.ids.ulid()
    meta = replace(
        block.meta, ulid=ulid, level=2, files=files, sources=sources or (ulid,), own=not sources
    )
    return LiveBlock(meta=meta, version=table.log.state.version + 1, first_row_id=0)


def judged(table: Table) -> tuple[Judged, State]:
    table.upsert(rows_of({"id": 1, "name": "a", "n": 1}))
    table.upsert(rows_of({"id": 2, "name": "a", "n": 1}))
    state = table.log.state
    first, second = state.blocks
    return Judged(
        blocks=state.blocks, but=(second.ulid,), stream=first.meta.stream, newest=3
    ), state


def after(state: State, *blocks: LiveBlock) -> State:
    return replace(state, version=state.version + 1, blocks=state.blocks.changed((), blocks))


def test_changes_that_come_later_are_newer() -> None:
    table = by_key()
    held, _ = judged(table)
    table.upsert(rows_of({"id": 1, "name": "b", "n": 2}))
    held.check(table.log.state)


def test_a_block_that_may_bring_an_older_version_is_a_conflict() -> None:
    table = by_key()
    held, state = judged(table)
    for versions in ((2, 9), None):
        block = merged(table, versions=versions, sources=())
        with pytest.raises(Conflict, match="may hold older versions of rows than 3") as raised:
            held.check(after(state, block))
        assert raised.value.block == block.ulid
    held.check(after(state, merged(table, versions=(3, 9), sources=())))


def test_a_merge_of_what_was_judged_brings_nothing_new() -> None:
    table = by_key()
    held, state = judged(table)
    first, second = state.blocks
    held.check(after(state, merged(table, versions=(2, 2), sources=first.meta.sources)))
    with pytest.raises(Conflict):
        held.check(after(state, merged(table, versions=(2, 2), sources=second.meta.sources)))


def test_other_streams_and_former_versions_do_not_count() -> None:
    table = by_key()
    held, state = judged(table)
    block = merged(table, versions=(2, 2), sources=())
    for meta in (
        replace(block.meta, labels={"site": "x"}),
        replace(block.meta, kind=BlockKind.HISTORY),
    ):
        held.check(after(state, replace(block, meta=meta)))


def test_the_oldest_version_is_known_only_if_all_chunks_say_it() -> None:
    table = by_key()
    judged(table)
    block = merged(table, versions=(4, 6), sources=())
    assert oldest_version(block) == 4
    bare = tuple(replace(file, columns={}) for file in block.meta.files)
    assert oldest_version(replace(block, meta=replace(block.meta, files=bare))) is None
    assert oldest_version(next(iter(table.log.state.blocks))) == 2
