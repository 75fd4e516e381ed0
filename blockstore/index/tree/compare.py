"""Whether a root holds a state, without loading what both share."""

from __future__ import annotations

from dataclasses import replace

from blockstore.index.state import State
from blockstore.index.tree.grow import block_leaves, source_leaves
from blockstore.index.tree.open import base_of


def is_same(stored: State, state: State) -> bool:
    """Whether the state of a root is the one given: by the hashes of its leaves; where those
    differ by the blocks themselves, for another release may encode the same block in other
    bytes."""
    root = base_of(stored)
    if root is None or replace(state, blocks=stored.blocks, accounted=stored.accounted) != stored:
        return False
    sources = [(one.leaf.sha256, one.leaf.sums) for one in source_leaves(state)]
    if sources != [(leaf.sha256, leaf.sums) for leaf in root.sources]:
        return False
    blocks = [(one.leaf.sha256, one.leaf.sums) for one in block_leaves(state)]
    held = [(leaf.sha256, leaf.sums) for leaf in root.blocks]
    if [sha256 for sha256, _ in blocks] == [sha256 for sha256, _ in held]:
        return blocks == held
    return stored.blocks == state.blocks
