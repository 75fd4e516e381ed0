"""Removing at once, which is the compactor's alone: the command line loads it when it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from blockstore.extras import load

if TYPE_CHECKING:
    from blockstore.table import Table

__all__ = ["Remove", "Removed", "removal"]


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
    """The compactor's removal. Raises MissingExtra where a package that it needs is not installed."""
    found: Remove = load("blockstore.compactor.by_hand", "remove_now", "removing at once")
    return found
