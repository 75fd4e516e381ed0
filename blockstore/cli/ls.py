"""``blockstore ls``: the tables of a lake, or the blocks of a table."""

from __future__ import annotations

import pyarrow.compute as pc

from blockstore.bucket import Bucket, open_bucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.cli.blocks import SHORT, cells, live
from blockstore.cli.options import Json
from blockstore.cli.output import Cell, Column, count, iso, show_json, show_table, size
from blockstore.errors import BlockstoreError, NotFound
from blockstore.index.log import exists
from blockstore.table import Table
from blockstore.world import World

__all__ = ["ls"]

_TABLES = (
    Column("name", "TABLE", fold=True),
    Column("rows", "ROWS", right=True),
    Column("blocks", "BLOCKS", right=True),
    Column("size", "SIZE", right=True),
    Column("version", "VERSION", right=True),
    Column("changed", "CHANGED"),
    Column("problem", "", fold=True),
)


def ls(url: str, /, *, json: Json = False) -> None:
    """List the tables of a lake, or the blocks of a table.

    Parameters
    ----------
    url
        A table, or a folder of tables.
    json
        Print JSON: one object a table, or a block.
    """
    world = World.real()
    bucket = open_bucket(url, world)
    if exists(bucket):
        _blocks(Table.open_bucket(bucket, world), json)
        return
    names = sorted(prefix.rstrip("/") for prefix in bucket.prefixes())
    found = [
        row for row in world.pool.map(lambda name: _table(bucket, name, world), names) if row is not None
    ]
    if not found:
        raise NotFound(
            f"no table at {bucket.url}, nor in a folder right below it: create one, or check the URL"
        )
    if json:
        show_json(found)
    else:
        show_table(_TABLES, [_cells(row) for row in found])


def _blocks(table: Table, json: bool) -> None:
    blocks = live(table.snapshot().snapshot)
    if json:
        show_json([block.json() for block in blocks])
    else:
        show_table(SHORT, [cells(block) for block in blocks])


def _table(lake: Bucket, name: str, world: World) -> dict[str, Cell] | None:
    """A table of the lake by its index alone; None for a folder that is none."""
    bucket = Prefixed(lake, name)
    row: dict[str, Cell] = {"name": name, "url": bucket.url}
    try:
        if not exists(bucket):
            return None
        snapshot = Table.open_bucket(bucket, world).snapshot()
    except BlockstoreError as error:
        return (
            row
            | dict.fromkeys(("version", "changed", "blocks", "rows", "bytes"), None)
            | {"problem": str(error)}
        )
    frame = snapshot.blocks.table()
    return row | {
        "version": snapshot.version,
        "changed": iso(snapshot.time_ms),
        "blocks": len(snapshot.blocks),
        "rows": pc.sum(frame["rows"]).as_py() or 0,
        "bytes": pc.sum(frame["bytes"]).as_py() or 0,
        "problem": None,
    }


def _cells(row: dict[str, Cell]) -> dict[str, str]:
    def number(key: str) -> int | None:
        value = row[key]
        return value if isinstance(value, int) else None

    rows, size_bytes, blocks, version = (number(key) for key in ("rows", "bytes", "blocks", "version"))
    return {
        "name": str(row["name"]),
        "rows": "" if rows is None else count(rows),
        "blocks": "" if blocks is None else count(blocks),
        "size": "" if size_bytes is None else size(size_bytes),
        "version": "" if version is None else str(version),
        "changed": str(row["changed"] or ""),
        "problem": str(row["problem"] or ""),
    }
