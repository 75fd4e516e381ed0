"""The block that takes a damaged one's place where no entry can: found by its age, preferred by its revision.

Rules (format, "sources"; protocol 3.2): it has the sources of the block that it replaces, each row its ``_source``, and
a revision above every known block that shares a source, so the cover chooses it. ``ignore_delay`` waives the wait where
there is no index (R2); with one it is published at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from blockstore.care.repair.copies import GoodFiles
from blockstore.care.repair.target import Target
from blockstore.format.block import BlockMeta, Parent, VisibleBy
from blockstore.format.chunks import BlockWriter
from blockstore.format.sources import write_sources
from blockstore.format.written import WrittenChunks, block_meta
from blockstore.lifecycle.upload import finish_upload

__all__ = ["PRODUCER", "upload_in_place_of"]

PRODUCER = "repair"

_SOURCE = "_source"


def upload_in_place_of(target: Target, files: GoodFiles, *, revision: int) -> BlockMeta | None:
    """Upload the good rows as a block that replaces the one they come from; durable (R3). None if no row is left."""
    ulid = target.world.ids.ulid()
    rows = files.rows(target.definition.schema, by_name=target.log is None)
    written = _write(target, ulid, files.meta, rows)
    if not written.rows:
        return None
    old = files.meta
    if target.definition.time_column is None:
        written = replace(written, min_time=old.min_time, max_time=old.max_time)
    meta = block_meta(
        written,
        ulid=ulid,
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
        sources_file=write_sources(target.bucket, ulid, old.sources),
    )
    return finish_upload(target.bucket, target.world, replace(meta, unknown=old.unknown))


def _write(target: Target, ulid: str, old: BlockMeta, rows: Iterable[pa.RecordBatch]) -> WrittenChunks:
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
