"""A state's blocks and sources, out of a root."""

from __future__ import annotations

from blockstore.index.rows import Rows
from blockstore.index.sources import Sources
from blockstore.index.state import State
from blockstore.index.tree.blocks import LeafRows
from blockstore.index.tree.leaf import Root, read_root
from blockstore.index.tree.loading import Leaves
from blockstore.index.tree.sources import LeafSources, SourceLeaves


def opened(
    found: object, version: int, name: str, data: bytes, leaves: Leaves | None
) -> tuple[Rows, Sources]:
    """What a checkpoint's tree holds, not loaded yet; ``leaves`` remember which root is in the
    bytes of the checkpoint, ``data``. Raises Corrupt."""
    root = read_root(found, version, name)
    if leaves is not None:
        leaves.remember_root(data, root)
    return held_by(root, leaves)


def base_of(state: State) -> Root | None:
    """The root that a state was read from, or written as; None where it is not in leaves."""
    held = state.blocks.base
    return held.root if isinstance(held, LeafRows) else None


def held_by(root: Root, leaves: Leaves | None) -> tuple[LeafRows, LeafSources]:
    """What a root holds, not loaded yet."""
    loader = Leaves(lambda keys: [None for _ in keys], "no table") if leaves is None else leaves
    return LeafRows(root, loader), LeafSources(SourceLeaves(root.sources), loader)
