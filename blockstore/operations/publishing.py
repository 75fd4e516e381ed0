"""Writes that the index does not know, made known to it because a transaction needs a part of them.

Rules (protocol 3.3 step 3, R4):
- A block that a transaction is about in part is published first.
- At or below the horizon, and under a mark, that is discovery's alone: the transaction conflicts
  until the compactor has discovered the block.
"""

from __future__ import annotations

from collections.abc import Iterable

from blockstore.errors import Conflict, Indeterminate, Unavailable
from blockstore.format.block import BlockMeta
from blockstore.index.change import Append, Left
from blockstore.operations.access import Access
from blockstore.operations.view import View

__all__ = ["publish_first"]

_WHY = {
    Left.DEFERRED: "lies at or below the horizon",
    Left.QUARANTINED: "shares writes with other blocks",
}


def publish_first(access: Access, view: View, metas: Iterable[BlockMeta], what: str) -> bool:
    """Publish blocks of the view of which ``what`` needs a part; answers whether there were any.
    Raises Conflict where it may not, Unavailable where it is not known whether it was done; then
    nothing of ``what`` was."""
    some = False
    for meta in metas:
        if meta.ulid in view.marked:
            raise _waits(meta, what, "is marked for deletion")
        try:
            committed = access.log.commit(Append(commit=access.world.ids.ulid(), blocks=(meta,)))
        except Indeterminate as error:
            raise Unavailable(f"nothing of this {what} is visible, try again: {error}") from error
        why = _WHY.get(committed.left.get(meta.ulid, Left.ACCOUNTED))
        if why is not None:
            raise _waits(meta, what, why)
        some = True
    return some


def _waits(meta: BlockMeta, what: str, why: str) -> Conflict:
    return Conflict(
        f"block {meta.ulid} holds rows that this {what} is about and rows that stay, no index "
        f"entry names it, and it {why}: "
        "run this again once the compactor has discovered it"
    )
