"""Removing at once, which is the compactor's alone: found by the entry point group
``blockstore.removal``.

The command line imports no room; without the compactor's room a block can be marked, and no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol

from blockstore.errors import MissingExtra

if TYPE_CHECKING:
    from blockstore.table import Table

__all__ = ["Remove", "Removed", "removal"]

GROUP = "blockstore.removal"


class Removed(Protocol):
    """What a removal answers."""

    blocks: Sequence[str]
    objects: int
    bytes: int
    dropped: Mapping[str, str]
    failed: Mapping[str, str]


class Remove(Protocol):
    """Removes one block at once, in the order of R7.

    Raises Conflict where a version names it and ``force`` is not said.
    """

    def __call__(
        self, table: Table, ulid: str, details: str = "", *, force: bool = False
    ) -> Removed: ...


def removal() -> Remove:
    """The compactor's removal. Raises MissingExtra where its room is not installed."""
    points = tuple(entry_points(group=GROUP))
    if not points:
        raise MissingExtra(
            "removing at once is the compactor's alone, and it is not installed: pip install "
            "'blocklake[compactor]', or mark "
            "the block without --now"
        )
    try:
        found: Remove = points[0].load()
    except ImportError as error:
        raise MissingExtra(
            "removing at once is the compactor's alone, and it cannot be loaded from "
            f"{points[0].value} ({error}): "
            "pip install 'blocklake[compactor]'"
        ) from error
    return found
