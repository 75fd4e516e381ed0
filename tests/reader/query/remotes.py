"""A table with large chunks, as local files and as objects of a bucket without files."""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.format import block_writer
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World

ROWS = 110_000
"""Of each block; enough for the page index to be read."""
GROUP_ROWS = 30_000
BLOCKS = 3

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("v", pa.float64()),
        ("w", pa.float64()),
        ("s", pa.string()),
        ("few", pa.string()),
        ("t", pa.timestamp("us", "UTC")),
        ("l", pa.list_(pa.int32())),
        ("r", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ("d", pa.decimal128(12, 2)),
        ("id.k", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Twins:
    """The same table twice."""

    local: TableSnapshot
    bucket: Metered

    def remote(self) -> TableSnapshot:
        """A snapshot of the remote one; nothing was fetched for it but its state."""
        return Table.open_bucket(self.bucket, World.real()).snapshot()

    def fetched(self) -> int:
        """The bytes that were read of the bucket so far."""
        return self.bucket.bytes["get_range"] + self.bucket.bytes["get"]


def make(folder: Path, *, blocks: int = BLOCKS, rows: int = ROWS, altered: bool = False) -> Twins:
    """``altered``: the last block has one column more than the others, and a wider one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_writer, "rows_per_group", lambda *_: GROUP_ROWS)
        table = bs.create(str(folder), schema=SCHEMA, sort_by=["id"])
        for block in range(blocks):
            data = _rows(block, rows)
            if altered and block == blocks - 1:
                table.alter(add=[pa.field("more", pa.string())], widen={"k": pa.int64()})
                data = data.append_column("more", data["few"])
            table.append(data)
    bucket = MemoryBucket(World.manual().clock, "memory://t")
    for at, _, names in os.walk(folder):
        for name in names:
            path = Path(at, name)
            bucket.put(str(path.relative_to(folder)), path.read_bytes())
    return Twins(table.snapshot(), Metered(bucket))


def _rows(block: int, rows: int) -> pa.Table:
    random = np.random.default_rng(block)
    first = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    v = random.random(rows)
    v[::97] = np.nan
    numbers = random.integers(0, 2**31, rows)
    times = round(first.timestamp()) + np.arange(rows)
    lengths = numbers % 3
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype("int32")
    structs = [pa.array(numbers), _text("", numbers % 11)]
    return pa.table(
        {
            "id": np.arange(block * rows, (block + 1) * rows),
            "k": pa.array((numbers % 1000).astype("int32"), pa.int32(), mask=numbers % 31 == 0),
            "v": v,
            "w": random.random(rows),
            "s": _text("text ", numbers),
            "few": _text("kind ", numbers % 7),
            "t": pa.array(times * 1_000_000).cast(pa.timestamp("us", "UTC")),
            "l": pa.ListArray.from_arrays(
                offsets, np.repeat((numbers % 5).astype("int32"), lengths)
            ),
            "r": pa.StructArray.from_arrays(structs, names=["a", "b"]),
            "d": pa.array((numbers % 10**6).astype("int32")).cast(pa.decimal128(12, 2)),
            "id.k": numbers,
        },
        schema=SCHEMA,
    )


def _text(before: str, numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(before, pa.array(numbers).cast(pa.string()), "")
