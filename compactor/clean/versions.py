"""Former versions of rows that are no longer kept.

Rule: a block of history leaves once the newest of its versions was replaced longer ago than they
are kept: nothing is kept shorter. How blocks leave is in ``blockstore/rows/expire.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from blockstore.format.block import BlockKind, BlockMeta
from blockstore.format.properties import FOREVER_S
from blockstore.ids import ulid_time_ms
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State


def kept_until_ms(state: State) -> int | None:
    """When the first block of former versions leaves; None where none is there or all are kept."""
    definition = state.definition
    kept_s = definition.properties.kept_history_s(definition.identity)
    if definition.identity is None or kept_s == FOREVER_S:
        return None
    newest = [ulid_time_ms(max(block.meta.sources)) for block in _history(state)]
    return min(newest) + round(kept_s * 1000) if newest else None


def old_history(state: State, now_ms: int) -> list[BlockMeta]:
    """The blocks of former versions that are no longer kept."""
    definition = state.definition
    kept_s = definition.properties.kept_history_s(definition.identity)
    if definition.identity is None or kept_s == FOREVER_S:
        return []
    before_ms = now_ms - round(kept_s * 1000)
    return [
        block.meta
        for block in _history(state)
        if ulid_time_ms(max(block.meta.sources)) <= before_ms
    ]


def _history(state: State) -> Iterator[LiveBlock]:
    """The blocks of former versions."""
    some, _ = state.blocks.summed(lambda leaf: leaf.history == 0)
    return (block for block in some if block.meta.kind is BlockKind.HISTORY)
