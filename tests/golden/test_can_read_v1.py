"""Bytes of format version 1 stay readable for ever, by this program and by others."""

from __future__ import annotations

import json
import math
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.bucket.local import LocalBucket
from blockstore.clock import ManualClock
from blockstore.format.block import BlockMeta, Job, VisibleBy
from blockstore.format.chunk_reader import read_chunk
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolve
from blockstore.format.marks import (
    MarkReason,
    NoCompactReason,
    decode_deletion_mark,
    decode_no_compact_mark,
)
from blockstore.format.meta import decode, encode, load_meta
from blockstore.format.schema import adapt, with_reserved
from blockstore.names import deletion_mark_key, is_ulid, no_compact_mark_key, object_key
from tests.golden.rows_v1 import FIRST, SECOND

HERE = Path(__file__).parent
TABLE = HERE / "v1"
BUCKET = LocalBucket(TABLE, ManualClock(), durable=False)
DEFINITION = Definition.from_json(json.loads((HERE / "definition_v1.json").read_text()))
METAS = {
    path.name: load_meta(BUCKET, path.name)
    for path in sorted(TABLE.iterdir())
    if is_ulid(path.name)
}


def named(*, level: int, revision: int = 0) -> BlockMeta:
    """The one block of a level and a revision."""
    (meta,) = [meta for meta in METAS.values() if (meta.level, meta.revision) == (level, revision)]
    return meta


def rows(meta: BlockMeta) -> pa.Table:
    """A block's rows under the table's schema, its chunks compared with their hashes."""
    names = [] if meta.level == 1 else ["_source"]
    chunks = [
        read_chunk(BUCKET, object_key(meta.ulid, file.path), file, verify=True)
        for file in meta.chunks
    ]
    return pa.concat_tables(
        [adapt(chunk, with_reserved(DEFINITION.schema, names)) for chunk in chunks]
    )


def tally(table: pa.Table) -> list[str]:
    """The rows as a multiset; NaN equals itself."""
    return sorted(map(repr, table.to_pylist()))


def test_the_definition_reads_as_it_was_made() -> None:
    assert (DEFINITION.time_column, DEFINITION.sort_by) == ("time", ("origin", "time"))
    assert DEFINITION.labels == {"cluster": "eu1"}
    assert (DEFINITION.properties.sync_delay_s, DEFINITION.properties.retention_s) == (
        60,
        365 * 86_400,
    )
    assert DEFINITION.schema.field("delay").metadata[b"blockstore.description"] == b"minutes"
    assert DEFINITION.schema.names == FIRST.schema.names


def test_a_block_of_two_chunks_reads_as_it_was_written() -> None:
    meta = named(level=1)
    assert (meta.rows, len(meta.chunks), meta.visible_by) == (4, 2, VisibleBy.INDEX)
    assert (meta.sources, meta.job) == ((meta.ulid,), Job(app="nightly", batch=17))
    assert DEFINITION.id_of(meta.schema) == 1
    assert tally(rows(meta)) == tally(FIRST)


def test_a_block_uploaded_again_keeps_its_source() -> None:
    meta = named(level=1, revision=1)
    assert meta.sources != (meta.ulid,)
    assert meta.visible_by is VisibleBy.AGE
    assert tally(rows(meta)) == tally(SECOND)


def test_a_merge_says_where_each_row_came_from() -> None:
    first, second, merge = named(level=1), named(level=1, revision=1), named(level=2, revision=1)
    found = rows(merge)
    assert merge.sources == tuple(sorted({*first.sources, *second.sources}))
    assert [parent.ulid for parent in merge.parents] == [first.ulid, second.ulid]
    assert tally(found.drop_columns("_source")) == tally(pa.concat_tables([FIRST, SECOND]))
    assert sorted(found["_source"].to_pylist()) == sorted(
        [first.sources[0]] * 4 + [second.sources[0]] * 3
    )


def test_a_long_list_of_sources_is_found_in_its_file() -> None:
    meta = named(level=3)
    assert len(meta.sources) == 1001
    assert meta.labels == {"cluster": "us1"}
    assert tally(rows(meta).drop_columns("_source")) == tally(FIRST)


def test_statistics_read_as_they_were_written() -> None:
    columns = named(level=1, revision=1).chunks[0].columns
    assert (columns["origin"].min, columns["origin"].max) == ("EWR", "z" * 63 + "{")
    assert (columns["seats"].min, columns["seats"].max) == (2**64 - 7, 2**64 - 5)
    assert columns["price"].max == "12345678901234567890123456789012346.67"
    assert (columns["delay"].max, columns["delay"].nans) == ("Infinity", 1)
    assert columns["nothing"].nulls == 3
    assert columns["raw"].min is None
    assert "tags" not in columns


def test_every_meta_is_the_same_after_this_releases_bytes() -> None:
    for ulid, meta in METAS.items():
        long_list = f"{ulid}/sources.parquet"
        assert (
            decode(encode(meta), ulid=ulid, load_sources=lambda key=long_list: BUCKET.get(key).data)
            == meta
        )


def test_marks_read_as_they_were_written() -> None:
    first, merge = named(level=1), named(level=2, revision=1)
    mark = decode_deletion_mark(BUCKET.get(deletion_mark_key(first.ulid)).data, ulid=first.ulid)
    assert (mark.reason, mark.superseded_by, mark.deletion_time_s) == (
        MarkReason.SUPERSEDED,
        merge.ulid,
        1_700_000_600,
    )
    keep = decode_no_compact_mark(BUCKET.get(no_compact_mark_key(merge.ulid)).data, ulid=merge.ulid)
    assert (keep.reason, keep.no_compact_time_s) == (NoCompactReason.MANUAL, 1_700_000_700)


def test_old_rows_read_under_a_newer_schema() -> None:
    newer = evolve(DEFINITION, add=[pa.field("gate", pa.string())], widen={"nothing": pa.int64()})
    meta = named(level=1)
    chunk = read_chunk(BUCKET, object_key(meta.ulid, meta.chunks[0].path), meta.chunks[0])
    found = adapt(chunk, newer.schema)
    assert found.schema.field("nothing").type == pa.int64()
    assert found["gate"].null_count == chunk.num_rows


@pytest.mark.parametrize("level", [1, 2])
def test_foreign_readers_agree(level: int) -> None:
    meta = named(level=level, revision=level - 1)
    paths = [str(TABLE / meta.ulid / file.path) for file in meta.chunks]
    expected = rows(meta)
    with duckdb.connect() as connection:
        found = connection.execute(
            "select count(*), sum(price), min(seats), epoch_ms(max(time)) from read_parquet(?)",
            [paths],
        )
        assert found.fetchall() == [
            (
                meta.rows,
                pytest.approx(sum(expected["price"].to_pylist())),
                min(expected["seats"].to_pylist()),
                max(expected["time"].to_pylist()).timestamp() * 1000,
            )
        ]
    assert sorted(pl.read_parquet(paths)["origin"].to_list()) == sorted(
        expected["origin"].to_pylist()
    )
    frames = [pq.read_table(path, partitioning=None).to_pandas() for path in paths]
    assert sum(int(frame["delay"].isna().sum()) for frame in frames) == sum(
        value is None or math.isnan(value) for value in expected["delay"].to_pylist()
    )
