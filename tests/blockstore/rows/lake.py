"""Tables whose rows change, in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from blockstore.bucket.memory import MemoryBucket
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.table import Table
from blockstore.world import World

BY_KEY = pa.schema([("id", pa.int64()), ("name", pa.string()), ("n", pa.int64())])
BY_ID = pa.schema([("name", pa.string()), ("n", pa.int64())])


def by_key(*, schema: pa.Schema = BY_KEY, key: Any = "id", **more: Any) -> Table:
    """A table with a key."""
    return _made(Definition.create(schema, key=key, **more))


def by_id(*, schema: pa.Schema = BY_ID, **more: Any) -> Table:
    """A table with row ids."""
    return _made(Definition.create(schema, row_ids=True, **more))


def again(table: Table) -> Table:
    """Another handle on the same table."""
    return Table.open_bucket(table.bucket, table.world)


def rows_of(*rows: dict[str, Any], schema: pa.Schema = BY_KEY) -> pa.Table:
    """Rows as Arrow's."""
    return pa.Table.from_pylist(list(rows), schema=schema)


def seen(table: Table, *columns: str, where: Any = None) -> list[dict[str, Any]]:
    """The current rows, sorted by all columns."""
    scan = table.snapshot().scan(columns=list(columns) or None, where=where)
    return sorted(scan.to_table().to_pylist(), key=repr)


def at_commit(table: Table, do: Callable[[], object]) -> None:
    """Let others be faster once: ``do`` is done before the next commit of this handle."""
    real = table.log.commit

    def commit(change: Any) -> Any:
        table.log.commit = real  # type: ignore[method-assign]
        do()
        return real(change)

    table.log.commit = commit  # type: ignore[method-assign]


def _made(definition: Definition) -> Table:
    world = World.manual()
    bucket = MemoryBucket(world.clock)
    return Table(bucket, world, index_log.create(bucket, world, definition))
