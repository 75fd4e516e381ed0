"""The target of a repair: one opened table, with or without an index."""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.bucket.api import Bucket
from blockstore.format.definition import Definition
from blockstore.index.log import Log
from blockstore.lifecycle.catalog import Catalog
from blockstore.operations.access import Access
from blockstore.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The parts of an opened table; ``log`` is None if it has no index."""

    bucket: Bucket
    world: World
    log: Log | None
    definition: Definition
    catalog: Catalog

    @property
    def access(self) -> Access:
        """The parts that a transaction needs."""
        assert self.log is not None, "only a table with an index has transactions"
        return Access(bucket=self.bucket, world=self.world, log=self.log, catalog=self.catalog)
