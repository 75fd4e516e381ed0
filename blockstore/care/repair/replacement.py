"""The block that replaces a damaged one without an entry: visible by its age, chosen by its
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
from blockstore.format.new_block import WrittenChunks, block_meta, write_segments
from blockstore.format.sources import write_sources
from blockstore.freshness import Freshness
from blockstore.lifecycle.upload import finish_upload

PRODUCER = "repair"

_SOURCE = "_source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Uploaded rows that no reader sees yet: a block without its meta.json."""

    target: Target
    ulid: str
    old: BlockMeta
    written: WrittenChunks

    def finish(self, *, revision: int, fresh: Freshness | None = None) -> BlockMeta:
        """Make the block complete and durable (R3).

        Raises Conflict if the listing that its revision depends on is no longer ``fresh``.
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
            segments=write_segments(target.bucket, self.ulid, self.written),
        )
        if fresh is not None and fresh.is_over:
            raise Conflict(
                f"the repair of block {old.ulid} took longer than {fresh.lasts_s:g} s after the "
                "table was listed, and was dropped, because a person may have hidden the block "
                "meanwhile: run the repair again"
            )
        return finish_upload(target.bucket, target.world, replace(meta, unknown=old.unknown))


def upload_in_place_of(target: Target, files: GoodFiles, *, revision: int) -> BlockMeta | None:
    """Upload the good rows as a complete block that replaces their own; durable (R3).

    Returns None if no row is left.
    """
    replacement = write_in_place_of(target, files)
    return None if replacement is None else replacement.finish(revision=revision)


def write_in_place_of(target: Target, files: GoodFiles) -> Replacement | None:
    """Write the good rows, without the meta.json; None if no row is left."""
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
