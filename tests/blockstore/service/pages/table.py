"""A small table in memory, on a clock that stands still, with blocks of an hour each."""

from __future__ import annotations

import pyarrow as pa

from blockstore.bucket.memory import MemoryBucket
from blockstore.format.definition import Definition
from blockstore.format.marks import (
    DeletionMark,
    MarkReason,
    NoCompactMark,
    NoCompactReason,
    encode_mark,
)
from blockstore.index import log as index_log
from blockstore.names import deletion_mark_key, no_compact_mark_key
from blockstore.operations.unindexed import Unindexed
from blockstore.table import Table
from blockstore.world import World

HOUR_MS = 3_600_000
START_MS = 1_690_000_000_000 // HOUR_MS * HOUR_MS
SCHEMA = pa.schema([("time", pa.timestamp("ms", tz="UTC")), ("value", pa.float64())])

__all__ = ["HOUR_MS", "START_MS", "advance", "filled", "mark", "no_compact", "put"]


def filled(blocks: int = 3, *, indexed: bool = True, labels: dict[str, str] | None = None) -> Table:
    """A table of so many blocks, one an hour."""
    world = World.manual(seed=3)
    bucket = MemoryBucket(world.clock)
    definition = Definition.create(SCHEMA, time_column="time", sort_by=["time"], labels=labels)
    if indexed:
        table = Table(bucket, world, index_log.create(bucket, world, definition))
    else:
        table = Table(bucket, world, Unindexed(definition, given=True))
    for hour in range(blocks):
        put(table, hour)
    return table


def put(table: Table, hour: int, rows: int = 6) -> str:
    """Append a block whose rows lie in this hour; answers its ULID."""
    advance(table, 1)
    times = [START_MS + hour * HOUR_MS + minute * 60_000 for minute in range(rows)]
    data = pa.table({"time": pa.array(times, pa.timestamp("ms", tz="UTC")), "value": [1.0] * rows})
    return table.append(data).ulid


def mark(table: Table, ulid: str, reason: MarkReason = MarkReason.MANUAL) -> None:
    """Put a deletion mark beside a block."""
    found = DeletionMark(ulid=ulid, deletion_time_s=1, reason=reason)
    table.bucket.put(deletion_mark_key(ulid), encode_mark(found))


def no_compact(table: Table, ulid: str) -> None:
    """Keep merges away from a block."""
    found = NoCompactMark(ulid=ulid, no_compact_time_s=1, reason=NoCompactReason.MANUAL)
    table.bucket.put(no_compact_mark_key(ulid), encode_mark(found))


def advance(table: Table, seconds: float) -> None:
    """Let time go by, for the table's writers and for its store."""
    table.world.clock.sleep(seconds)
