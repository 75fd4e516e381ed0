"""The rows of the relations of a table (``sql/relations.py``), at the version of its snapshot.

Rule: they are read from the index and, for changes and versions of rows, from the blocks, and held
in memory: changes that are larger than 64 MiB are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import orjson
import pyarrow as pa

from blockstore.bucket import Bucket
from blockstore.errors import Invalid, NotFound
from blockstore.feed.changes import changes
from blockstore.index.log import Log
from blockstore.operations.access import Access
from blockstore.reader.errors import BadSql
from blockstore.reader.query.sql.relations import Relation
from blockstore.rows.versions import row_history
from blockstore.scan.view import TableSnapshot
from blockstore.world import World

_MOST_BYTES = 64 << 20
_TIME = pa.timestamp("ms", "UTC")

_HISTORY = pa.schema(
    [
        ("version", pa.int64()),
        ("time", _TIME),
        ("operation", pa.string()),
        ("blocks_added", pa.int64()),
        ("blocks_removed", pa.int64()),
        ("rows_added", pa.int64()),
        ("read_version", pa.int64()),
        ("app", pa.string()),
        ("batch", pa.int64()),
        ("message", pa.string()),
        ("by", pa.string()),
    ]
)
_BLOCKS = pa.schema(
    [
        ("block", pa.string()),
        ("version", pa.int64()),
        ("kind", pa.string()),
        ("level", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("chunks", pa.int64()),
        ("min_time", _TIME),
        ("max_time", _TIME),
        ("labels", pa.string()),
        ("producer", pa.string()),
    ]
)
_TAGS = pa.schema([("tag", pa.string()), ("version", pa.int64())])


def rows_of(relation: Relation, taken: TableSnapshot, world: World) -> pa.Table:
    """The rows of a relation. Raises BadSql where the table has none, VersionExpired, and what the
    store raises."""
    if relation.kind == "blocks":
        return _blocks(taken)
    version = taken.version
    if version is None:
        raise BadSql(
            f"table {relation.table} has no index, and only that knows {relation.kind}: leave "
            f"{relation.table}.{relation.kind} out"
        )
    log = Log(taken.bucket, world)
    match relation.kind:
        case "history":
            return _history(log, version)
        case "tags":
            found = sorted(log.at(version).tags.items())
            rows = [{"tag": tag, "version": held} for tag, held in found]
            return pa.Table.from_pylist(rows, _TAGS)
        case "rows_history":
            return _row(relation, taken, world)
    return _changes(relation, taken, world, log, version)


def _history(log: Log, version: int) -> pa.Table:
    rows = [
        {
            "version": entry.id,
            "time": entry.time,
            "operation": str(entry.operation),
            "blocks_added": len(entry.add),
            "blocks_removed": len(entry.remove),
            "rows_added": sum(block.meta.rows for block in entry.add),
            "read_version": entry.read_version,
            "app": None if entry.job is None else entry.job.app,
            "batch": None if entry.job is None else entry.job.batch,
            "message": entry.message,
            "by": entry.by,
        }
        for entry in log.entries(None, version)
    ]
    return pa.Table.from_pylist(rows, _HISTORY)


def _blocks(taken: TableSnapshot) -> pa.Table:
    rows = [
        {
            "block": block.ulid,
            "version": block.version or None,
            "kind": str(block.meta.kind),
            "level": block.meta.level,
            "rows": block.meta.rows,
            "bytes": block.meta.bytes,
            "chunks": len(block.meta.chunks),
            "min_time": block.meta.min_time,
            "max_time": block.meta.max_time,
            "labels": orjson.dumps(dict(block.meta.labels)).decode(),
            "producer": block.meta.producer,
        }
        for block in taken.blocks
    ]
    return pa.Table.from_pylist(rows, _BLOCKS)


def _row(relation: Relation, taken: TableSnapshot, world: World) -> pa.Table:
    row: Any = relation.arguments if len(relation.arguments) > 1 else relation.arguments[0]
    try:
        return row_history(taken.bucket, world, taken.snapshot, row)
    except NotFound as error:
        raise BadSql(str(error)) from error


def _changes(
    relation: Relation, taken: TableSnapshot, world: World, log: Log, version: int
) -> pa.Table:
    given = {**dict(zip(("after", "until"), relation.arguments, strict=False))}
    given |= dict(relation.named)
    after, until = given.get("after"), given.get("until", version)
    if not isinstance(after, int) or not isinstance(until, int):
        raise BadSql(
            f"changes of table {relation.table} are between versions, which are whole numbers: "
            f"write {relation.table}.changes(after => 3)"
        )
    # Nothing of a feed writes.
    access = Access.of(cast("Bucket", taken.bucket), world, log)
    found = changes(access, after=after, until=until)
    return pa.Table.from_batches(_limited(found, relation), found.schema)


def _limited(batches: Any, relation: Relation) -> Iterator[pa.RecordBatch]:
    size = 0
    for batch in batches:
        size += batch.nbytes
        if size > _MOST_BYTES:
            raise Invalid(
                f"the changes of table {relation.table} have more than {_MOST_BYTES >> 20} MiB of "
                "rows, and a query holds them in memory: name fewer versions, or use the feed"
            )
        yield batch
