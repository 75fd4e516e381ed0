"""Blocks for the tests of this folder."""

from __future__ import annotations

import pyarrow as pa

from blockstore.format.block import BlockMeta, ChunkFile, ColumnStats, Job, Parent, VisibleBy
from blockstore.format.definition import Definition

A, B, C = (f"01JD00000000000000000000{letter}" + "0" for letter in "ABC")
SHA = "ab" * 32

DEFINITION = Definition.create(
    pa.schema(
        [
            pa.field("t", pa.timestamp("ms", "UTC")),
            pa.field("origin", pa.string()),
            pa.field("v", pa.float64()),
        ]
    ),
    time_column="t",
    sort_by=["origin", "t"],
)


def chunk(number: int = 1, rows: int = 2, **columns: ColumnStats) -> ChunkFile:
    """One file of a block."""
    return ChunkFile(
        path=f"chunks/{number:06d}.parquet", bytes=100, rows=rows, sha256=SHA, columns=columns
    )


def block(ulid: str = A, **changes: object) -> BlockMeta:
    """A level-1 block of one chunk and two rows, with ``changes``."""
    values: dict[str, object] = {
        "ulid": ulid,
        "min_time": 0,
        "max_time": 10,
        "rows": 2,
        "bytes": 100,
        "level": 1,
        "sources": (ulid,),
        "labels": {"zone": "b", "cluster": "eu1"},
        "visible_by": VisibleBy.INDEX,
        "uploaded_time": 1_700_000_000_000,
        "producer": "spark",
        "job": Job(app="nightly", batch=17),
        "time_column": "t",
        "sort_by": ("origin", "t"),
        "schema": DEFINITION.schema_bytes,
        "files": (
            chunk(
                t=ColumnStats(min=0, max=9, nulls=0),
                origin=ColumnStats(min="EWR", max="JFK", nulls=0),
                v=ColumnStats(min=None, max="Infinity", nulls=0, nans=1),
            ),
        ),
    }
    return BlockMeta(**(values | changes))  # type: ignore[arg-type]


def merged(**changes: object) -> BlockMeta:
    """A level-2 block of two sources."""
    return block(
        C,
        **{
            "level": 2,
            "sources": (A, B),
            "parents": (
                Parent(ulid=A, min_time=0, max_time=5),
                Parent(ulid=B, min_time=5, max_time=10),
            ),
            "own": False,
            "job": None,
        }
        | changes,
    )
