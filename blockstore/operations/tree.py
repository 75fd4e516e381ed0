"""Move a table to checkpoints as roots: one entry, which older releases refuse by name, and then
the first root.

Rule: nothing moves back. Checkpoints of versions before the entry stay as they are.
"""

from __future__ import annotations

from blockstore.bucket.api import writable
from blockstore.format.features import TREE
from blockstore.index.change import MoveToTree
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.log import Log
from blockstore.world import World


def move_to_tree(log: Log, world: World, *, message: str = "") -> int | None:
    """Move the table; returns the version of the entry, or None if it was moved before. Where the
    process dies after the entry, the next checkpoint is the first root."""
    state = log.poll()
    if TREE in state.requires:
        return None
    done = log.commit(MoveToTree(commit=world.ids.ulid(), message=message))
    write_checkpoint(writable(log.bucket), log.poll(), lambda: log.reader.leaves)
    return done.version
