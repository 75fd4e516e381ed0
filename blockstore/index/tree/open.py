"""A state's blocks and sources, out of a root."""

from __future__ import annotations

from collections.abc import Callable

from blockstore.errors import Corrupt
from blockstore.index.rows import Rows
from blockstore.index.sources import Sources
from blockstore.index.state import State
from blockstore.index.tree.blocks import LeafRows
from blockstore.index.tree.leaf import Root, read_root
from blockstore.index.tree.loading import Leaves
from blockstore.index.tree.proof import is_proven
from blockstore.index.tree.sources import LeafSources
from blockstore.names import checkpoint_key


def opened(found: object, version: int, name: str, leaves: Leaves | None) -> tuple[Rows, Sources]:
    """What a checkpoint's tree holds, not loaded yet. Raises Corrupt."""
    return held_by(read_root(found, version, name), leaves)


def base_of(state: State) -> Root | None:
    """The root that a state was read from, or written as; None where it is not in leaves."""
    held = state.blocks.base
    return held.root if isinstance(held, LeafRows) else None


def held_by(root: Root, leaves: Leaves | None) -> tuple[LeafRows, LeafSources]:
    """What a root holds, not loaded yet."""
    loader = Leaves(lambda keys: [None for _ in keys], "no table") if leaves is None else leaves
    return LeafRows(root, loader), LeafSources(root.sources, loader)


def check_root(state: State, boundary: int, at: Callable[[int], State | None], url: str) -> None:
    """Raise Corrupt unless the root that a state was read from may be relied on. ``boundary`` was
    read after it; ``at`` returns the state of a version's checkpoint, or None."""
    root = base_of(state)
    assert root is not None, "it was read from a root"
    rows = state.blocks.base
    gone = rows.loader.lacks(root) if isinstance(rows, LeafRows) else None
    if gone is not None:
        raise Corrupt(f"{checkpoint_key(root.version)} of {url} names {gone}, which is gone")

    def at_boundary() -> Root | None:
        found = at(boundary)
        return None if found is None else base_of(found)

    if not is_proven(root, boundary, at_boundary):
        raise Corrupt(
            f"{checkpoint_key(root.version)} of {url} shares leaves with checkpoint {root.base}, "
            f"which the boundary {boundary} had passed before it was looked at"
        )
