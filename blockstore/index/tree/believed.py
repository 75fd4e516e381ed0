"""Whether a root that is in a bucket may be relied on (``proof.py``)."""

from __future__ import annotations

from collections.abc import Callable

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.index.boundary import parse_boundary
from blockstore.index.checkpoint import decode_checkpoint
from blockstore.index.state import State
from blockstore.index.tree.blocks import LeafRows
from blockstore.index.tree.leaf import Root
from blockstore.index.tree.loading import Leaves
from blockstore.index.tree.open import base_of
from blockstore.index.tree.proof import is_proven
from blockstore.names import BOUNDARY, checkpoint_key


def proven_now(bucket: ReadBucket, root: Root) -> bool:
    """Whether a root that is there may be relied on, by a look at the boundary."""
    boundary = parse_boundary(bucket.get(BOUNDARY).data, bucket.url)
    return is_proven(root, boundary, lambda: root_of(bucket, boundary))


def check_root(
    state: State, boundary: int, data_of: Callable[[int], bytes | None], url: str
) -> None:
    """Raise Corrupt unless the root that a state was read from may be relied on. ``boundary`` was
    read after it; ``data_of`` gets a version's checkpoint."""
    root, rows = base_of(state), state.blocks.base
    assert root is not None, "it was read from a root"
    gone = rows.loader.lacks(root) if isinstance(rows, LeafRows) else None
    if gone is not None:
        raise Corrupt(
            f"{checkpoint_key(root.version)} of {url} names {gone}, which is gone or damaged"
        )

    def at_boundary() -> Root | None:
        data = data_of(boundary)
        return None if data is None else base_of(decode_checkpoint(data, version=boundary, url=url))

    if not is_proven(root, boundary, at_boundary):
        raise Corrupt(
            f"{checkpoint_key(root.version)} of {url} shares leaves with checkpoint {root.base}, "
            f"which the boundary {boundary} had passed before it was looked at"
        )


def root_of(bucket: ReadBucket, version: int, leaves: Leaves | None = None) -> Root | None:
    """The root of a version; None where there is none that can be read. It is always looked at;
    ``leaves`` remember what its bytes say."""
    get_leaves = None if leaves is None else lambda: leaves
    try:
        data = bucket.get(checkpoint_key(version)).data
        if leaves is not None and (known := leaves.root_in(data, version)) is not None:
            return known
        return base_of(decode_checkpoint(data, version=version, url=bucket.url, leaves=get_leaves))
    except (ObjectMissing, Corrupt):
        return None
