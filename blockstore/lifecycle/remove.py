"""The order in which a block's objects go (R7).

- meta.json first, so that a half-removed block is no complete block to anybody.
- The chunks and whatever else lies there next.
- deletion-mark.json last, so that a removal that was cut short is found again and finished.

Only the compactor imports this module; the import contracts hold readers and Spark away from it.
"""

from __future__ import annotations

from collections.abc import Iterable

from blockstore.names import DELETION_MARK, META

__all__ = ["removal_order"]


def removal_order(ulid: str, paths: Iterable[str]) -> list[str]:
    """The keys of a block's objects, given their paths inside it, in the order in which R7 deletes them."""
    rank = {META: 0, DELETION_MARK: 2}
    return [f"{ulid}/{path}" for path in sorted(set(paths), key=lambda path: (rank.get(path, 1), path))]
