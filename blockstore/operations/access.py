"""What a transaction works with, in one value: the table's bucket, its index, what was listed of
it, and the world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from blockstore.bucket.api import Bucket
from blockstore.index.log import Log
from blockstore.scan.reads import Reads
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.lifecycle.catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One handle's way to a table with an index."""

    bucket: Bucket
    world: World
    log: Log
    catalog: Catalog
    """What this handle has read of blocks by listing: it spares their meta.json the next time."""
    reads: Reads | None = None
    """What the handle keeps between its reads; None to keep nothing."""

    @classmethod
    def of(cls, bucket: Bucket, world: World, log: Log) -> Access:
        """With a catalog of its own."""
        from blockstore.lifecycle.catalog import Catalog

        return cls(bucket=bucket, world=world, log=log, catalog=Catalog(bucket, world))
