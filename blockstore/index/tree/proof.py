"""Whether a root may be relied on: that no collector removes a leaf of it before the boundary has
passed it. Pure, and modelled (``specs/tree.pml``).

Rules:
- The boundary is read after the root was there. A root below it is not relied on, unless a tag pins
  it.
- Else it is whole if the root from which its leaves were taken is not below the boundary either; or
  if each leaf has a generation that is not, or is named by the root at the boundary, all of whose
  leaves a collector has proven.
- Whether a leaf is there shows nothing: a collector that looked before the root was written may
  still remove it.
"""

from __future__ import annotations

from collections.abc import Callable

from blockstore.index.tree.leaf import Root


def is_proven(root: Root, boundary: int, at_boundary: Callable[[], Root | None]) -> bool:
    """Whether a root is whole while the boundary does not pass it. ``at_boundary`` returns the root
    at the boundary, None if it is not there."""
    if root.version < boundary:
        return False
    if root.base >= boundary:
        return True
    old = {leaf.key for leaf in root.leaves if leaf.generation < boundary}
    if not old or root.version == boundary:
        return True
    found = at_boundary()
    return found is not None and old <= found.keys
