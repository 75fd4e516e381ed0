"""What must hold of the leaves of a table whose checkpoints are roots.

- The boundary moves only over a root all of whose leaves are there, with their hashes.
- No leaf goes that a root names on which a process may rely: the root at the boundary, one that a
  tag keeps, and one above the boundary whose leaves come from a root that is not below it.
"""

from __future__ import annotations

from collections.abc import Iterable

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.index.checkpoint import decode_checkpoint
from blockstore.index.tree.leaf import Root
from blockstore.index.tree.open import base_of
from blockstore.index.tree.repair import broken_leaves
from blockstore.names import CHECKPOINTS, checkpoint_key, parse_checkpoint
from blockstore.simulation.violation import Violation


def check_whole(store: ReadBucket, boundary: int) -> None:
    """The root at the boundary, to which it has just moved."""
    root = _root(store, boundary)
    problems = {} if root is None else broken_leaves(store, root)
    if problems:
        raise Violation(f"the boundary moved to {boundary}, and {min(problems.values())}")


def check_gone(
    store: ReadBucket, key: str, boundary: int, kept: Iterable[int], false: Iterable[int]
) -> None:
    """A leaf was deleted."""
    relied_on, wrong = {boundary, *kept}, frozenset(false)
    listed = (parse_checkpoint(info.key) for info in store.list(CHECKPOINTS, recursive=False))
    for version in sorted(one for one in listed if one is not None and one not in wrong):
        root = _root(store, version)
        if root is None or key not in root.keys:
            continue
        if version in relied_on or (version > boundary and root.base >= boundary):
            raise Violation(
                f"{key} was deleted, and checkpoint {version} names it (boundary {boundary})"
            )


def _root(store: ReadBucket, version: int) -> Root | None:
    try:
        data = store.get(checkpoint_key(version)).data
        return base_of(decode_checkpoint(data, version=version))
    except (ObjectMissing, Corrupt):
        return None
