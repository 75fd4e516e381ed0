"""A table without an index as the target of a shipper: whether it exists, and which blocks fit it.

Rules:
- The blocks define the table. Without a complete block there is no table, and nothing is shipped:
  neither to a mistyped URL nor to the place of a lost table.
- A table that had an index is refused, whatever its blocks are: its index was lost, or it is being
  put back from a copy, and its blocks may be removed. A shipper that does not know the table finds
  this out from the newest complete block, if only an index shows that one.
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
from blockstore.names import SHIPPER_STATE, is_ulid
from blockstore.operations.place import folders, never_indexed, whole_block
from blockstore.operations.unindexed import Unindexed
from blockstore.world import World


class UnindexedTarget:
    """What a shipper knows of the blocks of one table; keep it between passes."""

    def __init__(self, bucket: Bucket, world: World) -> None:
        self._bucket = bucket
        self._catalog = Catalog(bucket, world)
        self._joins: set[bytes] = set()

    @property
    def url(self) -> str:
        """Where the table is."""
        return self._bucket.url

    def begin(self, no_index: NotFound, *, indexed: bool) -> None:
        """Check that the table exists, before a pass ships or deletes anything.

        Raises NotFound, as a write does, and Corrupt if its index was lost; ``indexed`` says that
        it had one.
        """
        if not never_indexed(self._bucket):
            raise no_index
        if indexed:
            raise self._lost_index() or no_index
        if not self._joins and self._newest_needs_an_index():
            self._opened()  # which says so, unless a file of that block is missing
            raise self._lost_index() or no_index
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

    def _lost_index(self) -> Corrupt | None:
        """Return the error for a table that had an index and only has blocks; None if it has
        none."""
        whole = whole_block(self._bucket)
        if whole is None:
            return None
        return Corrupt(
            f"{self._bucket.url} had an index and has none now, but it has blocks ({whole} is "
            "one): the index was lost, or a copy is being put back; restore it from a copy or with "
            "'blockstore index rebuild'. If a table without an index was created there on purpose, "
            f"delete {SHIPPER_STATE} in the folder, and start ship again"
        )

    def _newest_needs_an_index(self) -> bool:
        """Return whether only an index shows the newest complete block.

        The first one is often older than the index, or a plain append.
        """
        for ulid in sorted(filter(is_ulid, folders(self._bucket)), reverse=True):
            try:
                return load_meta(self._bucket, ulid).visible_by is VisibleBy.INDEX
            except (Corrupt, ObjectMissing):
                continue
        return False

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
