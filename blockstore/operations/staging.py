"""The blocks of a transaction on their way: visible by their entry only, so nothing of them is seen
before it.

Rules:
- An upload whose result is not known leaves nothing open: no entry names it, so it is Unavailable,
  never Indeterminate.
- A condemned block (at or below the horizon) is uploaded again under a new ULID that keeps its
  sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from blockstore.errors import Indeterminate, Unavailable
from blockstore.format.block import BlockMeta
from blockstore.index.state import State
from blockstore.lifecycle.upload import finish_for_entry, upload_again
from blockstore.operations.access import Access

RENEWALS = 2
"""So often a condemned block is uploaded again: a fresh ULID is condemned only where the clocks are
days apart."""


@contextmanager
def uploading(what: str) -> Iterator[None]:
    """Uploads of blocks that no entry names."""
    try:
        yield
    except Indeterminate as error:
        raise Unavailable(f"nothing of this {what} is visible, try again: {error}") from error


def renewed(access: Access, state: State, meta: BlockMeta) -> BlockMeta:
    """The block, or if the state condemns it, its rows under a new ULID."""
    if not state.below_horizon(meta.ulid):
        return meta
    return complete(access, upload_again(access.bucket, access.world, meta))


def complete(access: Access, meta: BlockMeta) -> BlockMeta:
    """Write the meta.json of a block whose chunks are uploaded; the entry that names it is next."""
    log = access.log
    return finish_for_entry(
        access.bucket, access.world, meta, slow=log.is_slow, meanwhile=log.look_ahead()
    )
