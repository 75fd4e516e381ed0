"""A table without an index as the target of a shipper: whether it exists, and which blocks fit it.

Rules:
- The blocks define the table. Without a complete block there is no table, and nothing is shipped:
  neither to a mistyped URL nor to the place of a lost table.
- A block fits if its schema does not contradict those of the stored blocks. It is refused even if
  it is older than they are: readers let the oldest block decide, so it would hide the others.
- The schema of the block with the oldest name fits without a check. Only for another schema are all
  blocks read, once each.
"""

from __future__ import annotations

from blockstore.bucket.api import Bucket
from blockstore.errors import Corrupt, NotFound, ObjectMissing
from blockstore.format.block import VisibleBy
from blockstore.format.meta import load_meta
from blockstore.format.properties import Properties
from blockstore.lifecycle.catalog import Catalog
from blockstore.lifecycle.schemas import why_not_joined
from blockstore.operations.place import never_indexed, whole_block
from blockstore.operations.unindexed import Unindexed
from blockstore.world import World


class UnindexedTarget:
    """What a shipper knows of the blocks of one table; keep it between passes."""

    def __init__(self, bucket: Bucket, world: World) -> None:
        self._bucket = bucket
        self._catalog = Catalog(bucket, world)
        self._joins: set[bytes] = set()

    def begin(self, no_index: NotFound) -> None:
        """Check that the table exists, before a pass ships or deletes anything.

        Raises NotFound, as a write does, and Corrupt if its index was lost.
        """
        if not never_indexed(self._bucket):
            raise no_index
        schema = self._first_schema()
        if schema is None:
            schema = self._opened().definition.schema_bytes
        self._joins = {schema}

    def why_not(self, schema: bytes) -> str | None:
        """Return why a block with this schema does not fit the table, as a clause; None if it
        does."""
        if schema in self._joins:
            return None
        problem = why_not_joined(schema, self._opened().definition)
        if problem is None:
            self._joins.add(schema)
        return problem

    def _first_schema(self) -> bytes | None:
        """Return the schema of the first complete block, if it can be read and needs no index."""
        ulid = whole_block(self._bucket)
        try:
            meta = None if ulid is None else load_meta(self._bucket, ulid)
        except (Corrupt, ObjectMissing):
            return None
        return meta.schema if meta is not None and meta.visible_by is VisibleBy.AGE else None

    def _opened(self) -> Unindexed:
        return Unindexed.open(self._catalog, Properties(), trusting=False)
