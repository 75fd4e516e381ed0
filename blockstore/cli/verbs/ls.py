"""``blockstore ls``: the tables of a lake, or the blocks of a table."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from blockstore.bucket import Bucket, open_bucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.cli.blocks import SHORT, cells, live
from blockstore.cli.failure import complain
from blockstore.cli.options import Json
from blockstore.cli.output import Cell, Column, count, counted, iso, show_json, show_table, size
from blockstore.errors import BlockstoreError, NotFound, TableDropped
from blockstore.operations.place import folders, is_table
from blockstore.table import Table
from blockstore.world import World

_TABLES = (
    Column("name", "TABLE"),
    Column("rows", "ROWS", right=True),
    Column("blocks", "BLOCKS", right=True),
    Column("size", "SIZE", right=True),
    Column("version", "VERSION", right=True),
    Column("changed", "CHANGED"),
    Column("problem", "", fold=True),
)


def ls(url: str, /, *, json: Json = False) -> int:
    """List the tables of a lake, or the blocks of a table.

    The exit code is 1 if one of them cannot be read; the others are shown.

    Parameters
    ----------
    url
        A table, or a folder of tables.
    json
        Print JSON: one object for each table or block.
    """
    world = World.real()
    bucket = open_bucket(url, world)
    if is_table(bucket):
        return _blocks(Table.open_bucket(bucket, world, discovery=None), json)
    rows = world.pool.map(lambda name: _table(bucket, name, world), folders(bucket))
    found = [row for row in rows if row is not None]
    if not found:
        raise NotFound(
            f"no table at {bucket.url} or in a folder directly below it: create one, or check "
            "the URL"
        )
    if json:
        show_json(found)
    else:
        show_table(_TABLES, [_cells(row) for row in found])
    broken = [str(row["name"]) for row in found if row["problem"] is not None]
    if not broken:
        return 0
    return complain(
        f"{counted(len(broken), 'table')} of {bucket.url} cannot be read completely: "
        f"{', '.join(broken)}"
    )


def _blocks(table: Table, json: bool) -> int:
    snapshot = table.snapshot()
    blocks = live(snapshot)
    if json:
        show_json([block.json() for block in blocks])
    else:
        show_table(SHORT, [cells(block) for block in blocks])
    if not snapshot.left_out:
        return 0
    damage = "; ".join(f"{ulid}: {why}" for ulid, why in sorted(snapshot.left_out.items()))
    return complain(f"{counted(len(snapshot.left_out), 'block')} of {table.url} left out: {damage}")


def _table(lake: Bucket, name: str, world: World) -> dict[str, Cell] | None:
    """Return a table of the lake, or None for a folder that is not a table, or one that was
    dropped."""
    bucket = Prefixed(lake, name)
    row: dict[str, Cell] = {"name": name, "url": bucket.url}
    try:
        if not is_table(bucket):
            return None
        snapshot = Table.open_bucket(bucket, world, discovery=None).snapshot()
    except TableDropped:
        return None
    except BlockstoreError as error:
        return (
            row
            | dict.fromkeys(("version", "changed", "blocks", "rows", "bytes"), None)
            | {"problem": str(error)}
        )
    blocks = snapshot.blocks
    frame = blocks.table()
    newest_ms = max((block.meta.uploaded_time for block in snapshot.snapshot.listed), default=None)
    return row | {
        "version": snapshot.version,
        "changed": iso(newest_ms if snapshot.version is None else snapshot.time_ms),
        "blocks": len(blocks),
        "rows": pc.sum(frame["rows"]).as_py() or 0,
        "bytes": pc.sum(frame["bytes"]).as_py() or 0,
        "problem": _left_out(snapshot.left_out),
    }


def _left_out(blocks: Mapping[str, str]) -> str | None:
    if not blocks:
        return None
    ulid, damage = min(blocks.items())
    return f"{counted(len(blocks), 'block')} left out: {ulid}: {damage}"


def _cells(row: dict[str, Cell]) -> dict[str, str]:
    def number(key: str) -> int | None:
        value = row[key]
        return value if isinstance(value, int) else None

    rows, size_bytes, blocks, version = (
        number(key) for key in ("rows", "bytes", "blocks", "version")
    )
    return {
        "name": str(row["name"]),
        "rows": "" if rows is None else count(rows),
        "blocks": "" if blocks is None else count(blocks),
        "size": "" if size_bytes is None else size(size_bytes),
        "version": "" if version is None else str(version),
        "changed": str(row["changed"] or ""),
        "problem": str(row["problem"] or ""),
    }
