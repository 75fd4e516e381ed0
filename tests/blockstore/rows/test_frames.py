"""Frames of polars, whose texts are views, do what the same rows of plain Arrow do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.table import Table
from blockstore.world import World

LONG = "a text that is too long to be kept in the view itself"
TEXT = pa.string()


@dataclass(frozen=True)
class Kind:
    key: Any
    value: Any
    made: Callable[[str], Any]
    plain_key: pa.DataType
    plain: pa.DataType


def text(value: str) -> str:
    return value


NAMES = ["a", "b", "c", "d", LONG]
KINDS = {
    "string": Kind(pl.String, pl.String, text, TEXT, TEXT),
    "categorical": Kind(pl.Categorical, pl.Categorical, text, TEXT, TEXT),
    "enum": Kind(pl.Enum(NAMES), pl.Enum(NAMES), text, TEXT, TEXT),
    "list": Kind(
        pl.String, pl.List(pl.String), lambda value: [value, None, LONG], TEXT, pa.list_(TEXT)
    ),
    "list of categorical": Kind(
        pl.String, pl.List(pl.Categorical), lambda value: [value, LONG], TEXT, pa.list_(TEXT)
    ),
    "struct": Kind(
        pl.String,
        pl.Struct({"x": pl.String, "y": pl.List(pl.String), "z": pl.Categorical}),
        lambda value: {"x": value, "y": [LONG, value], "z": value},
        TEXT,
        pa.struct([("x", TEXT), ("y", pa.list_(TEXT)), ("z", TEXT)]),
    ),
    "binary": Kind(pl.Binary, pl.Binary, lambda value: value.encode(), pa.binary(), pa.binary()),
}


def merged(table: Table, rows: Any) -> object:
    merge = table.merge(rows, on="k").when_matched_update().when_not_matched_insert()
    return merge.execute()


def written(table: Table, rows: Any) -> None:
    with table.writer() as writer:
        writer.write(rows)
    writer.finish()


def keys_deleted(table: Table, rows: Any) -> object:
    if isinstance(rows, pl.DataFrame):
        return table.delete_rows(rows.select("k"))
    return table.delete_rows(rows.select(["k"]))


def with_label(rows: Any) -> Any:
    if isinstance(rows, pl.DataFrame):
        return rows.with_columns(eu=pl.Series(["1", "2", "2"]).cast(pl.Categorical))
    return rows.append_column("eu", pa.array(["1", "2", "2"]))


def filled(table: Table, rows: Any) -> None:
    """Values that a function gives."""
    values = rows["v"]
    found = values.to_arrow() if isinstance(values, pl.Series) else values.combine_chunks()
    table.update({"v": lambda batch: found[: len(batch)]})


KEYED: dict[str, Any] = {"key": "k"}
IDS: dict[str, Any] = {"row_ids": True}
NONE: dict[str, Any] = {}
DOORS: dict[str, tuple[dict[str, Any], Callable[[Table, Any], object]]] = {
    "append": (NONE, Table.append),
    "append with ids": (IDS, Table.append),
    "append evolving": (NONE, lambda table, rows: table.append(rows, evolve=True)),
    "append of batches": (
        NONE,
        lambda table, rows: table.append(iter(pa.table(rows).to_batches(max_chunksize=2))),
    ),
    "append of a slice": (NONE, lambda table, rows: table.append(pa.table(rows).slice(1))),
    "writer": (NONE, written),
    "overwrite": (NONE, Table.overwrite),
    "overwrite with ids": (IDS, Table.overwrite),
    "overwrite of a part": (NONE, lambda table, rows: table.overwrite(rows, where="n > 0")),
    "overwrite of keys": (KEYED, lambda table, rows: table.overwrite(rows, where="n >= 0")),
    "upsert": (KEYED, Table.upsert),
    "upsert of the last": (KEYED, lambda table, rows: table.upsert(rows, duplicates="last")),
    "upsert in sequence": (KEYED, lambda table, rows: table.upsert(rows, sequence_by="n")),
    "upsert by a text": (KEYED, lambda table, rows: table.upsert(rows, sequence_by="k")),
    "upsert with labels": (KEYED, lambda table, rows: table.upsert(with_label(rows))),
    "upsert of the last with labels": (
        KEYED,
        lambda table, rows: table.upsert(with_label(rows), duplicates="last"),
    ),
    "insert": (
        KEYED,
        lambda table, rows: table.insert(rows, on_conflict="ignore"),
    ),
    "put_rows": (KEYED, Table.put_rows),
    "put_rows with labels": (KEYED, lambda table, rows: table.put_rows(with_label(rows))),
    "new rows of set_cells": (
        KEYED,
        lambda table, rows: table.set_cells([], new=rows[1:] if len(rows) else rows),
    ),
    "update": (KEYED, filled),
    "delete_rows": (KEYED, keys_deleted),
    "merge": (KEYED, merged),
    "merge with ids": (IDS, merged),
}


def made(kind: Kind, identity: dict[str, Any]) -> Table:
    schema = pa.schema([("k", kind.plain_key), ("v", kind.plain), ("n", pa.int64())])
    world = World.manual()
    bucket = MemoryBucket(world.clock)
    definition = Definition.create(schema, labels={"eu": "1"}, **identity)
    index_log.create(bucket, world, definition)
    table = Table.open_bucket(bucket, world)
    first = rows(kind, schema, [("a", 0)])
    if "key" in identity:
        table.upsert(first)
    else:
        table.append(first)
    return table


def rows(kind: Kind, schema: pa.Schema, given: list[tuple[str, int]]) -> pa.Table:
    key = kind.made if pa.types.is_binary(kind.plain_key) else text
    values = [{"k": key(k), "v": kind.made(k), "n": n} for k, n in given]
    return pa.Table.from_pylist(values, schema=schema)


def contents(table: Table) -> list[dict[str, Any]]:
    scan = table.snapshot().scan(columns=["k", "v", "n", "eu"])
    return sorted(scan.to_table().to_pylist(), key=repr)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", KINDS)
def test_a_frame_does_what_the_same_plain_rows_do(name: str, door: str) -> None:
    kind = KINDS[name]
    identity, through = DOORS[door]
    one, other = made(kind, identity), made(kind, identity)
    given = [("a", 1), ("b", 2), (LONG, 3)]
    plain = rows(kind, one.definition.schema, given)
    frame = pl.DataFrame(plain.to_pylist(), schema={"k": kind.key, "v": kind.value, "n": pl.Int64})
    through(one, plain)
    through(other, frame)
    assert contents(other) == contents(one)
    assert other.definition.schema.equals(one.definition.schema)


@pytest.mark.parametrize("through", [Table.upsert, Table.put_rows, merged, Table.append])
def test_a_frame_of_several_chunks_has_all_its_categories(
    through: Callable[[Table, Any], object],
) -> None:
    kind = KINDS["categorical"]
    table = made(kind, IDS if through == Table.append else KEYED)
    parts = [
        pl.DataFrame({"k": [one], "v": [one], "n": [1]}).cast(
            {"k": pl.Enum([one]), "v": pl.Categorical}
        )
        for one in ("b", LONG)
    ]
    through(table, [pa.table(part).to_batches()[0] for part in parts])
    assert [row["v"] for row in contents(table)][-1] == "b"
    assert len(contents(table)) == 3
