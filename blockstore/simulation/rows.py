"""The rows of the simulation: made for a write, and found again in a block.

A row is (write, row); a set of a write's rows is a bit mask. ``Rows`` maps writes to masks: small
enough to compare an entire table after every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.format.block import BlockMeta
from blockstore.names import object_key
from blockstore.simulation.ledger import ROWS, Write
from blockstore.simulation.store import Store
from blockstore.simulation.violation import Violation

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("ms", "UTC")),
        pa.field("write", pa.int64()),
        pa.field("row", pa.int64()),
        pa.field("key", pa.int64()),
    ]
)
BUFFER_BYTES = 80
"""So little is held that two rows make a chunk."""
WHOLE = (1 << ROWS) - 1

Masks = dict[int, int]


def batches_of(write: Write, schema: pa.Schema) -> list[pa.RecordBatch]:
    """The rows of a write under the table's schema, in two batches, so that they become two
    chunks."""
    return [_batch(write, rows, schema) for rows in (range(ROWS // 2), range(ROWS // 2, ROWS))]


def _batch(write: Write, rows: range, schema: pa.Schema) -> pa.RecordBatch:
    values = [
        [write.at_ms + 1000 * row for row in rows],
        [write.number for _ in rows],
        list(rows),
        [write.key(row) for row in rows],
    ]
    columns = [pa.array(column, field.type) for column, field in zip(values, SCHEMA, strict=True)]
    added = [pa.nulls(len(rows), field.type) for field in list(schema)[len(SCHEMA) :]]
    return pa.RecordBatch.from_arrays([*columns, *added], names=schema.names)


def masks_of(writes: list[int], rows: list[int], where: str) -> Masks:
    """Rows as masks; none may occur twice."""
    found: Masks = {}
    for write, row in zip(writes, rows, strict=True):
        bit = 1 << row
        held = found.get(write, 0)
        if held & bit:
            raise Violation(f"{where} holds row {row} of write {write} twice")
        found[write] = held | bit
    return found


@dataclass(frozen=True, slots=True)
class Content:
    """What a complete block holds."""

    meta: BlockMeta
    by_source: Mapping[str, Masks]
    columns: list[str]
    """Of its chunks, without those that say where rows are from."""

    @property
    def writes(self) -> Mapping[str, frozenset[int]]:
        """The writes of which each source holds rows."""
        return {source: frozenset(masks) for source, masks in self.by_source.items()}

    def rows(self, excepted: frozenset[str] = frozenset()) -> Masks:
        """Its rows without those of some sources."""
        found: Masks = {}
        for source, masks in self.by_source.items():
            if source not in excepted:
                for write, mask in masks.items():
                    found[write] = found.get(write, 0) | mask
        return found


def read_content(store: Store, meta: BlockMeta) -> Content:
    """The rows of a block whose chunks are all there, straight from the truth."""
    by_source: dict[str, tuple[list[int], list[int]]] = {}
    columns: list[str] = []
    for file in meta.chunks:
        data = store.get(object_key(meta.ulid, file.path)).data
        table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
        columns = [name for name in table.schema.names if not name.startswith("_")]
        writes, rows = table["write"].to_pylist(), table["row"].to_pylist()
        sources = (
            table["_source"].to_pylist() if "_source" in table.schema.names else [None] * len(rows)
        )
        for write, row, source in zip(writes, rows, sources, strict=True):
            held = by_source.setdefault(source or meta.sources[0], ([], []))
            held[0].append(write)
            held[1].append(row)
    return Content(
        meta,
        {
            source: masks_of(*held, f"block {meta.ulid}")
            for source, held in sorted(by_source.items())
        },
        columns,
    )
