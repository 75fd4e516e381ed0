"""The block that takes a damaged one's place where no entry can: found by its age, preferred by its
revision.

Rules (format, "sources"; protocol 3.2): it has the sources of the block that it replaces, each row
its ``_source``, and a revision above every known block that shares a source, so the cover chooses
it. ``ignore_delay`` waives the wait where there is no index (R2); with one it is published at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from blockstore.care.repair.copies import GoodFiles
from blockstore.care.repair.target import Target
from blockstore.errors import Conflict
from blockstore.format.block import BlockMeta, Parent, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.new_block import WrittenChunks, block_meta
from blockstore.format.sources import write_sources
from blockstore.freshness import Freshness
from blockstore.lifecycle.upload import finish_upload

PRODUCER = "repair"

_SOURCE = "_source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Rows that lie in the bucket and that no reader sees yet: a block without its meta.json."""

    target: Target
    ulid: str
    old: BlockMeta
    written: WrittenChunks

    def finish(self, *, revision: int, fresh: Freshness | None = None) -> BlockMeta:
        """Make the block complete, if what its revision rests on is still ``fresh``; durable (R3).

        Raises Conflict if it is not.
        """
        target, old = self.target, self.old
        meta = block_meta(
            self.written,
            ulid=self.ulid,
            definition=target.definition,
            visible_by=VisibleBy.AGE,
            producer=PRODUCER,
            level=max(old.level, 2),
            sources=old.sources,
            parents=(Parent(ulid=old.ulid, min_time=old.min_time, max_time=old.max_time),),
            labels=old.labels,
            resolution=old.resolution,
            revision=revision,
            own=False,
            ignore_delay=target.log is None,
            uploaded_time=target.world.clock.now_ms(),
            sources_file=write_sources(target.bucket, self.ulid, old.sources),
        )
        if fresh is not None and fresh.is_over:
            raise Conflict(
                f"the look at the table was longer than {fresh.lasts_s:g} s ago when the repair "
                f"of block {old.ulid} was to be completed: it "
                "is dropped, since somebody may have hidden the block meanwhile; run the repair "
                "again"
            )
        return finish_upload(target.bucket, target.world, replace(meta, unknown=old.unknown))


def upload_in_place_of(target: Target, files: GoodFiles, *, revision: int) -> BlockMeta | None:
    """Upload the good rows as a block that replaces the one they come from; durable (R3).

    None if no row is left.
    """
    replacement = write_in_place_of(target, files)
    return None if replacement is None else replacement.finish(revision=revision)


def write_in_place_of(target: Target, files: GoodFiles) -> Replacement | None:
    """Write the good rows, all but the meta.json; None if no row is left."""
    ulid, old = target.world.ids.ulid(), files.meta
    rows = files.rows(target.definition.schema, by_name=target.log is None)
    written = _write(target, ulid, old, rows)
    if not written.rows:
        return None
    if target.definition.time_column is None:
        written = replace(written, min_time=old.min_time, max_time=old.max_time)
    return Replacement(target=target, ulid=ulid, old=old, written=written)


def _write(
    target: Target, ulid: str, old: BlockMeta, rows: Iterable[pa.RecordBatch]
) -> WrittenChunks:
    with BlockWriter(
        target.bucket,
        target.world,
        ulid,
        target.definition,
        labels=old.labels,
        producer=PRODUCER,
        extra_columns=(_SOURCE,),
    ) as writer:
        for batch in rows:
            writer.write(batch)
        return writer.finish()
