"""Writes the golden table of format version 1: run once, by hand, when version 1 was made.

    python -m tests.golden.make_v1

Its output is kept for ever and never made again: that old bytes stay readable is what the test
beside it proves. The table has a level-1 block of two chunks, one uploaded again under a new name,
a merge of both with ``_source``, a merge of 1,001 sources, and marks of both kinds.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from blockstore.bucket.local import LocalBucket
from blockstore.format.block import BlockMeta, Job, Parent, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.format.marks import (
    DeletionMark,
    MarkReason,
    NoCompactMark,
    NoCompactReason,
    encode_mark,
)
from blockstore.format.meta import encode
from blockstore.format.new_block import WrittenChunks, block_meta
from blockstore.format.properties import Properties
from blockstore.format.sources import write_sources
from blockstore.names import deletion_mark_key, meta_key, no_compact_mark_key
from blockstore.world import World
from tests.golden.rows_v1 import FIRST, SCHEMA, SECOND

HERE = Path(__file__).parent
DEFINITION = Definition.create(
    SCHEMA,
    time_column="time",
    sort_by=["origin", "time"],
    labels={"cluster": "eu1"},
    properties=Properties.parse({"sync_delay": "1m", "retention": "365d"}),
)


def main() -> None:
    """Write the golden table, unless it is there."""
    folder = HERE / "v1"
    if folder.exists():
        raise SystemExit(f"{folder} exists: golden bytes are never written again")
    world = World.manual(seed=1)
    bucket = LocalBucket(folder, world.clock, durable=False)
    first = _level_one(bucket, world, FIRST, Job(app="nightly", batch=17))
    refused = world.ids.ulid()
    second = _again(bucket, world, refused)
    merged = _merge(bucket, world, first, second)
    _many_sources(bucket, world)
    mark = DeletionMark(
        ulid=first.ulid,
        deletion_time_s=1_700_000_600,
        reason=MarkReason.SUPERSEDED,
        details="merged",
        superseded_by=merged.ulid,
    )
    bucket.put(deletion_mark_key(first.ulid), encode_mark(mark))
    keep = NoCompactMark(
        ulid=merged.ulid, no_compact_time_s=1_700_000_700, reason=NoCompactReason.MANUAL
    )
    bucket.put(no_compact_mark_key(merged.ulid), encode_mark(keep))
    (HERE / "definition_v1.json").write_text(json.dumps(DEFINITION.to_json(), indent=1) + "\n")


def _level_one(bucket: LocalBucket, world: World, rows: pa.Table, job: Job) -> BlockMeta:
    ulid = world.ids.ulid()
    with BlockWriter(
        bucket, world, ulid, DEFINITION, producer="golden", job=job, buffer_bytes=400
    ) as writer:
        for start in range(0, rows.num_rows, 2):
            writer.write(rows.slice(start, 2))
        written = writer.finish()
    meta = writer.describe(written, visible_by=VisibleBy.INDEX, uploaded_time=world.clock.now_ms())
    bucket.put(meta_key(ulid), encode(meta))
    return meta


def _again(bucket: LocalBucket, world: World, source: str) -> BlockMeta:
    ulid = world.ids.ulid()
    written = _write(bucket, world, ulid, SECOND)
    return _put(
        bucket,
        block_meta(
            written,
            ulid=ulid,
            definition=DEFINITION,
            visible_by=VisibleBy.AGE,
            producer="golden",
            sources=(source,),
            revision=1,
            uploaded_time=world.clock.now_ms(),
        ),
    )


def _merge(bucket: LocalBucket, world: World, first: BlockMeta, second: BlockMeta) -> BlockMeta:
    ulid = world.ids.ulid()
    sources = [first.sources[0]] * FIRST.num_rows + [second.sources[0]] * SECOND.num_rows
    rows = pa.concat_tables([FIRST, SECOND]).append_column("_source", pa.array(sources))
    rows = rows.sort_by([("origin", "ascending"), ("time", "ascending")])
    written = _write(bucket, world, ulid, rows, extra_columns=("_source",), presorted=True)
    return _put(
        bucket,
        block_meta(
            written,
            ulid=ulid,
            definition=DEFINITION,
            visible_by=VisibleBy.INDEX,
            producer="golden",
            level=2,
            sources=tuple(sorted({*first.sources, *second.sources})),
            parents=tuple(
                Parent(ulid=meta.ulid, min_time=meta.min_time, max_time=meta.max_time)
                for meta in (first, second)
            ),
            own=False,
            revision=1,
            uploaded_time=world.clock.now_ms(),
        ),
    )


def _many_sources(bucket: LocalBucket, world: World) -> BlockMeta:
    ulid = world.ids.ulid()
    sources = tuple(f"01HF{number:022d}" for number in range(1001))
    rows = FIRST.append_column("_source", pa.array([sources[0]] * FIRST.num_rows))
    written = _write(bucket, world, ulid, rows, extra_columns=("_source",))
    return _put(
        bucket,
        block_meta(
            written,
            ulid=ulid,
            definition=DEFINITION,
            visible_by=VisibleBy.INDEX,
            producer="golden",
            level=3,
            sources=sources,
            own=False,
            labels={"cluster": "us1"},
            sources_file=write_sources(bucket, ulid, sources),
        ),
    )


def _write(
    bucket: LocalBucket,
    world: World,
    ulid: str,
    rows: pa.Table,
    *,
    extra_columns: tuple[str, ...] = (),
    presorted: bool = False,
) -> WrittenChunks:
    with BlockWriter(
        bucket,
        world,
        ulid,
        DEFINITION,
        producer="golden",
        extra_columns=extra_columns,
        presorted=presorted,
    ) as writer:
        writer.write(rows)
        return writer.finish()


def _put(bucket: LocalBucket, meta: BlockMeta) -> BlockMeta:
    bucket.put(meta_key(meta.ulid), encode(meta))
    return meta


if __name__ == "__main__":
    main()
