"""A table without an index, as one handle holds it: its definition and its delays, and the
snapshots of its listing.

Rules (protocol 3.1, 3.2):
- Nothing is written before the first block. What the table is stands in its blocks; what a handle
  was created with comes after them.
- Every block is visible by its age. One that only an index could show is malformed here and named:
  a table that lost its index is never read as a smaller one without saying so.
- The delays are no one's but the config's: they are handed in, and R10 is checked when they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from blockstore.bucket.api import Bucket, ReadBucket, is_there
from blockstore.errors import Conflict, Corrupt, Invalid, NotFound, Unavailable
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.definition import Definition
from blockstore.format.properties import Properties
from blockstore.index import log as index_log
from blockstore.names import BOUNDARY, INDEX, JOBS, is_ulid, meta_key
from blockstore.scan.snapshot import Snapshot
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.lifecycle.catalog import Catalog, Synced
    from blockstore.lifecycle.list_path import Listed

__all__ = ["Unindexed", "check_place", "declare", "never_indexed", "what_to_do", "whole_block"]

_PRODUCER = "create"
_SHOWN_FOLDERS = 5
_OF_A_TABLE = frozenset({INDEX, JOBS, BOUNDARY.partition("/")[0] + "/"})
"""Folders of a table itself, which its loss may have left behind."""


class Unindexed:
    """One handle's idea of a table without an index. ``definition`` is what it writes under."""

    def __init__(self, definition: Definition, *, given: bool) -> None:
        self.definition = definition
        self._given = given

    @property
    def properties(self) -> Properties:
        """The table's delays."""
        return self.definition.properties

    @classmethod
    def open(cls, catalog: Catalog, properties: Properties, *, trusting: bool) -> Unindexed:
        """What the blocks tell. Raises NotFound where there is none; Corrupt where there is none
        that can be read, or, unless ``trusting``, where there are blocks that an index once named.
        """
        from blockstore.lifecycle.schemas import derived

        synced = catalog.in_time(lambda: (catalog.sync(), properties))
        metas = _complete(synced)
        lost = next((meta.ulid for meta in metas if meta.visible_by is VisibleBy.INDEX), None)
        if lost is not None and not trusting:
            raise Corrupt(
                f"{catalog.bucket.url} has no index and holds blocks that only an index shows "
                f"({lost} is one): the index was "
                "lost; bring it back with blockstore index rebuild, or read the rest with "
                "discovery='list'"
            )
        definition = derived(
            (meta for meta in metas if meta.visible_by is VisibleBy.AGE), properties
        )
        if definition is None:
            raise _nothing(catalog.bucket, synced)
        return cls(definition, given=False)

    def alter(
        self,
        catalog: Catalog,
        *,
        add: Iterable[pa.Field],
        widen: Mapping[str, pa.DataType] | None,
        properties: Mapping[str, object] | None,
    ) -> Definition:
        """Change what this handle writes under from now on; its next block carries it to everyone
        else."""
        from blockstore.operations.alter import altered

        listed = self._listed(catalog)
        labels = Snapshot.of_listing(listed.definition or self.definition, listed).label_names
        self.definition = altered(
            self.definition, labels, add=add, widen=widen, properties=properties
        )
        self._given = True
        return self.definition

    def snapshot(self, catalog: Catalog) -> Snapshot:
        """What is visible now, under the columns that the blocks say, whatever this handle writes
        under."""
        listed = self._listed(catalog)
        definition = listed.definition or self.definition
        if not self._given:
            self.definition = definition
        return Snapshot.of_listing(definition, listed)

    def _listed(self, catalog: Catalog) -> Listed:
        from blockstore.lifecycle.list_path import list_snapshot

        synced = catalog.in_time(lambda: (catalog.sync(), self.properties))
        return list_snapshot(synced.found, None, self.properties, synced.listing.now_ms)


def declare(bucket: Bucket, world: World, definition: Definition) -> BlockMeta:
    """Upload a block without rows, by which every process knows the table before there are any."""
    from blockstore.format.written import WrittenChunks, block_meta
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


def check_place(bucket: Bucket, world: World, *, index: bool) -> None:
    """Raise Conflict where blocks lie without an index: a new index would forget their rows, and a
    new definition could contradict them. Raise Invalid where a table with an index cannot live."""
    if index_log.exists(bucket):
        if not index:
            raise Conflict(
                f"there is a table at {bucket.url} already: open it, or choose another URL"
            )
        return  # who creates the index meets the one that is there
    whole = whole_block(bucket)
    if whole is not None and index:
        raise Conflict(
            f"{bucket.url} holds blocks ({whole} is one) and no index: a new table there would "
            "forget their rows; choose "
            "another URL, or bring the index back from a copy"
        )
    if whole is not None:
        raise Conflict(
            f"{bucket.url} holds blocks ({whole} is one): open the table with discovery='list', "
            "or choose another URL"
        )
    if index:
        _check_store(bucket, world)


def _check_store(bucket: Bucket, world: World) -> None:
    """Raise Invalid on a store without create-if-absent: an entry would not have one winner there
    (3.8).

    Measured, unless the store is known to keep its conditions.
    """
    if bucket.refuses_stale_writes():
        return
    from blockstore.bucket.probe import CREATE_IF_ABSENT, Result, probe

    (finding,) = probe(bucket, world, only=CREATE_IF_ABSENT)
    if finding.result is Result.FAILED:
        raise Invalid(
            f"{bucket.url} does not keep create-if-absent ({finding.detail}), so only a table "
            "without an index works there: "
            "create it with index=False (--no-index)"
        )
    if finding.result is Result.UNKNOWN:
        raise Unavailable(
            f"it could not be measured whether {bucket.url} keeps create-if-absent "
            f"({finding.detail}): try again"
        )


def never_indexed(bucket: ReadBucket) -> bool:
    """Whether there is no boundary; where there is no entry either, the table has no index
    (3.4)."""
    return not is_there(bucket, BOUNDARY)


def whole_block(bucket: ReadBucket) -> str | None:
    """The ULID of a complete block, if there is one: without meta.json it is an upload that has not
    ended."""
    folders = sorted(name for part in bucket.prefixes() if is_ulid(name := part.rstrip("/")))
    return next((ulid for ulid in folders if is_there(bucket, meta_key(ulid))), None)


def _complete(synced: Synced) -> list[BlockMeta]:
    return [
        one.meta for one in synced.found.values() if one.meta is not None and one.damage is None
    ]


def _nothing(bucket: ReadBucket, synced: Synced) -> Exception:
    damaged = {ulid: one.damage for ulid, one in synced.found.items() if one.damage is not None}
    if damaged:
        ulid, damage = min(damaged.items())
        return Corrupt(
            f"no block of {bucket.url} can be read, so nothing says what the table is: {ulid}: "
            f"{damage}; restore one from a "
            "copy"
        )
    nothing = f"no table at {bucket.url}: found neither an index nor a complete block"
    below = _folders(bucket)
    if below:
        some = ", ".join(below[:_SHOWN_FOLDERS]) + (", …" if len(below) > _SHOWN_FOLDERS else "")
        return NotFound(
            f"{nothing}; right below it lie {some}: name a table among them ('blockstore ls "
            f"{bucket.url}' lists them), or check "
            "the URL"
        )
    return NotFound(
        f"{nothing}; create one with blockstore.create(…) or 'blockstore create URL --schema …', "
        "or check the URL"
    )


def _folders(bucket: ReadBucket) -> list[str]:
    """The folders that may be tables, were this a lake."""
    names = (prefix for prefix in bucket.prefixes() if prefix not in _OF_A_TABLE)
    return sorted(name for prefix in names if not is_ulid(name := prefix.rstrip("/")))


def what_to_do(bucket: Bucket) -> str:
    """What to do about a place without an index."""
    whole = whole_block(bucket)
    if whole is not None:
        return (
            f", and blocks ({whole} is one): open it with discovery='list', or bring its index back"
        )
    return (
        "; create one with blockstore.create(…) or 'blockstore create URL --schema …', or check "
        "the URL"
    )
