"""What one handle keeps of remote chunks between its queries: footers, hashes, segments.

A query that is repeated, or that reads the same rows, then fetches nothing again. It is made at the
first query: opening a table does not load what reading needs.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.scan.fetch.fetcher import Fetcher


class Reads:
    """One for all snapshots of a handle; threads may share it."""

    def __init__(self, world: World) -> None:
        self._world = world

    @cached_property
    def fetcher(self) -> Fetcher:
        """Return what fetches and keeps the bytes of chunks."""
        from blockstore.scan.fetch.fetcher import Fetcher

        return Fetcher(self._world.pool)
