"""A table without an index, as one handle holds it: its definition and its delays, and the
snapshots of its listing.

Rules (protocol 3.1, 3.2):
- Nothing is written before the first block. What the table is is in its blocks; what a handle was
  created with comes after them.
- Every block is visible by its age. One that only an index could show is malformed here and named:
  a table that lost its index is never read as a smaller one without saying so.
- The delays come from the configuration alone: they are handed in, and R10 is checked when they
  are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from blockstore.bucket.api import Bucket
from blockstore.errors import Corrupt, Invalid
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.definition import Definition
from blockstore.format.evolution import Alteration
from blockstore.format.properties import Properties
from blockstore.operations.contents import Contents, Discovery, no_index
from blockstore.operations.place import no_table
from blockstore.scan.snapshot import Snapshot
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.lifecycle.catalog import Catalog, Synced
    from blockstore.lifecycle.list_path import Listed

_PRODUCER = "create"


def check_without_index(definition: Definition) -> None:
    """Raise Invalid for a table whose rows need an index."""
    from blockstore.files.named import columns_with_files

    if definition.identity is not None:
        raise Invalid("rows have an identity only in a table with an index: leave index=False out")
    if columns_with_files(definition):
        raise Invalid("rows name files only in a table with an index: leave index=False out")


class Unindexed(Contents):
    """The contents of a table without an index: blocks that a listing shows, once they are old
    enough. ``definition`` is the one under which this handle writes."""

    log = None
    discovery = Discovery.LIST

    def __init__(self, definition: Definition, *, given: bool) -> None:
        self._definition = definition
        self._given = given

    @property
    def definition(self) -> Definition:
        return self._definition

    @property
    def properties(self) -> Properties:
        """The table's delays."""
        return self.definition.properties

    @classmethod
    def open(cls, catalog: Catalog, properties: Properties, *, trusting: bool) -> Unindexed:
        """What the blocks show. Raises NotFound where there is none; Corrupt where there is none
        that can be read, or, unless ``trusting``, where there are blocks that an index once named.
        """
        from blockstore.lifecycle.schemas import derived

        synced = catalog.in_time(lambda: (catalog.sync(), properties))
        metas = _complete(synced)
        lost = next((meta.ulid for meta in metas if meta.visible_by is VisibleBy.INDEX), None)
        if lost is not None and not trusting:
            raise Corrupt(
                f"{catalog.bucket.url} has no index and holds blocks that only an index shows "
                f"({lost} is one): the index was lost; restore it with blockstore index rebuild, "
                "or read the rest with discovery='list'"
            )
        definition = derived(
            (meta for meta in metas if meta.visible_by is VisibleBy.AGE), properties
        )
        if definition is None:
            raise no_table(catalog.bucket, synced)
        return cls(definition, given=False)

    def alter(
        self, catalog: Callable[[], Catalog], alteration: Alteration, *, message: str
    ) -> Definition:
        """Change the definition under which this handle writes from now on; its next block carries
        it to all other processes."""
        if message:
            raise no_index(catalog().bucket.url)
        if alteration.by_name:
            raise Invalid(
                f"the table at {catalog().bucket.url} has no index, and a column is its name "
                "there: columns can be added and widened, and nothing else; write the rows to a "
                "table with an index"
            )
        from blockstore.files.named import columns_with_files
        from blockstore.operations.alter import altered

        listed = self._listed(catalog())
        labels = Snapshot.of_listing(listed.definition or self.definition, listed).label_names
        wanted = altered(self.definition, labels, alteration)
        if columns_with_files(wanted):
            raise Invalid(
                f"the table at {catalog().bucket.url} has no index, and rows name files only in a "
                "table with one: write the rows to a table with an index"
            )
        self._definition = wanted
        self._given = True
        return self.definition

    def newest(self, catalog: Callable[[], Catalog]) -> Snapshot:
        """What is visible now, under the columns that the blocks carry, whatever definition this
        handle writes under."""
        listed = self._listed(catalog())
        definition = listed.definition or self.definition
        if not self._given:
            self._definition = definition
        return Snapshot.of_listing(definition, listed)

    def _listed(self, catalog: Catalog) -> Listed:
        from blockstore.lifecycle.list_path import list_snapshot

        synced = catalog.in_time(lambda: (catalog.sync(), self.properties))
        return list_snapshot(synced.found, None, self.properties, synced.listing.now_ms)


def declare(bucket: Bucket, world: World, definition: Definition) -> BlockMeta:
    """Upload a block without rows, by which every process knows the table before there are any."""
    from blockstore.format.new_block import WrittenChunks, block_meta
    from blockstore.lifecycle.upload import finish_upload

    now_ms = world.clock.now_ms()
    nothing = WrittenChunks(files=(), rows=0, bytes=0, min_time=now_ms, max_time=now_ms + 1)
    meta = block_meta(
        nothing,
        ulid=world.ids.ulid(),
        definition=definition,
        visible_by=VisibleBy.AGE,
        producer=_PRODUCER,
        labels=definition.labels,
        uploaded_time=now_ms,
    )
    return finish_upload(bucket, world, meta)


def _complete(synced: Synced) -> list[BlockMeta]:
    return [
        one.meta for one in synced.found.values() if one.meta is not None and one.damage is None
    ]
