"""What one handle, or one engine, keeps between its queries: of remote chunks footers, hashes and
segments; of rows that change which ones are hidden.

A query that is repeated, or that reads the same rows, then fetches nothing again. It is made at the
first query: opening a table does not load what reading needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from blockstore.lazy import once
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.scan.fetch.fetcher import Fetcher
    from blockstore.scan.hidden_cache import HiddenCache


class Reads:
    """One for all snapshots of a handle; threads may share it."""

    def __init__(self, world: World, fetcher: Callable[[], Fetcher] | None = None) -> None:
        """``fetcher`` returns the one of another owner; by default one is made."""
        self._world = world
        self._given = fetcher

    @once
    def fetcher(self) -> Fetcher:
        """Return what fetches and keeps the bytes of chunks."""
        from blockstore.scan.fetch.fetcher import Fetcher

        return Fetcher(self._world.pool) if self._given is None else self._given()

    @once
    def hidden(self) -> HiddenCache:
        """Return what keeps which rows are hidden."""
        from blockstore.scan.hidden_cache import HiddenCache

        return HiddenCache()
