"""A table without an index, as a shipper sees it: whether there is one, and which blocks it could
show.

Rules:
- The table is what its blocks say. Where no complete block lies there is no table, and nothing is
  shipped: neither to a mistyped URL nor to where a table was.
- A block joins if its schema does not contradict those that lie there. It is refused even where it
  is older than they are: readers let the older decide, so that it would push them out.
- The schema of the block that bears the oldest name joins unasked. Only for another one are all
  blocks read, once each.
"""

from __future__ import annotations

from blockstore.bucket.api import Bucket
from blockstore.errors import Corrupt, NotFound, ObjectMissing
from blockstore.format.block import VisibleBy
from blockstore.format.loading import load_meta
from blockstore.format.properties import Properties
from blockstore.lifecycle.catalog import Catalog
from blockstore.lifecycle.schemas import why_not_joined
from blockstore.operations.place import never_indexed, whole_block
from blockstore.operations.unindexed import Unindexed
from blockstore.world import World

__all__ = ["Joining"]


class Joining:
    """What a shipper knows of the blocks at one place; keep it between passes."""

    def __init__(self, bucket: Bucket, world: World) -> None:
        self._bucket = bucket
        self._catalog = Catalog(bucket, world)
        self._joins: set[bytes] = set()

    def begin(self, no_index: NotFound) -> None:
        """Look whether a table is there, as a pass must before it ships or removes anything. Raises
        NotFound, as a write does; Corrupt where its index was lost."""
        if not never_indexed(self._bucket):
            raise no_index
        schema = self._first_schema()
        if schema is None:
            schema = self._opened().definition.schema_bytes
        self._joins = {schema}

    def why_not(self, schema: bytes) -> str | None:
        """Why a block with this schema cannot join the table, as a clause; None if it can."""
        if schema in self._joins:
            return None
        problem = why_not_joined(schema, self._opened().definition)
        if problem is None:
            self._joins.add(schema)
        return problem

    def _first_schema(self) -> bytes | None:
        """The schema of the first complete block, if it can be read and needs no index."""
        ulid = whole_block(self._bucket)
        try:
            meta = None if ulid is None else load_meta(self._bucket, ulid)
        except (Corrupt, ObjectMissing):
            return None
        return meta.schema if meta is not None and meta.visible_by is VisibleBy.AGE else None

    def _opened(self) -> Unindexed:
        return Unindexed.open(self._catalog, Properties(), trusting=False)
