"""The result of a commit where its own entry does not give it: operations found done, and shares of
a common entry. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from blockstore.format.block import BlockMeta
from blockstore.index.change import Change, Committed, Done, Left
from blockstore.index.state import State


def already(state: State, blocks: tuple[BlockMeta, ...], done: Done) -> Committed:
    """The result of an operation with these blocks that had nothing to write."""
    known = done.blocks or tuple(meta.ulid for meta in blocks)
    live = [block for ulid in known if (block := state.blocks.get(ulid)) is not None]
    versions = {block.version for block in live}
    by_commit = done.version is not None and not done.blocks
    left = _stayed_out(state, blocks) if by_commit else done.left
    return Committed(
        version=versions.pop() if done.version is None and len(versions) == 1 else done.version,
        added=tuple(block.meta for block in live),
        already=all(reason is Left.ACCOUNTED for reason in left.values()),
        left=left,
    )


def share_of(committed: Committed, blocks: tuple[BlockMeta, ...], state: State) -> Committed:
    """The result of one of several appends in an entry."""
    ulids = {block.ulid for block in blocks}
    left = {ulid: reason for ulid, reason in committed.left.items() if ulid in ulids}
    added = tuple(
        block for block in committed.added if block.ulid in ulids and block.ulid not in left
    )
    if added:
        return Committed(version=committed.version, entry=committed.entry, added=added, left=left)
    return already(state, blocks, Done(left=left))


def blocks_of(change: Change) -> tuple[BlockMeta, ...]:
    """The blocks that a change is about: those of an append or a discovery."""
    return tuple(getattr(change, "blocks", ()))


def _stayed_out(state: State, blocks: tuple[BlockMeta, ...]) -> Mapping[str, Left]:
    """Which blocks of an entry, known by its commit id alone, did not enter by it: nothing accounts
    for their rows."""
    left = {}
    for meta in blocks:
        held = len(state.accounted.held(meta.sources))
        if held < len(meta.sources):
            left[meta.ulid] = Left.QUARANTINED if held else Left.DEFERRED
    return left
