"""The leaves of a root, copied to another bucket: a table never shares them with another one."""

from __future__ import annotations

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.index.state import State
from blockstore.index.tree.encoding import unpacked
from blockstore.index.tree.open import base_of
from blockstore.index.tree.write import send
from blockstore.names import LEAVES


def copy_leaves(source: ReadBucket, target: Bucket, state: State) -> None:
    """Copy those leaves of a state's root that are not there, under their names. Raises
    ObjectMissing or Corrupt where one is not in the source."""
    root = base_of(state)
    assert root is not None, "the state is of a root"
    there = {info.key for info in target.list(LEAVES)}
    for leaf in root.leaves:
        if leaf.key not in there:
            data = source.get(leaf.key).data
            send(target, leaf.key, leaf.sha256, unpacked(data, leaf.sha256, leaf.key))
