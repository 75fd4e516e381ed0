"""Rows that have an identity: how they are made for an operation, and found again in blocks and
answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.format.block import BlockKind, BlockMeta
from blockstore.format.identity import DELETED, ROW_ID, VERSION
from blockstore.names import object_key
from blockstore.simulation.ground import Kind
from blockstore.simulation.images import Held, Image, Row
from blockstore.simulation.rows import SCHEMA
from blockstore.simulation.store import Store
from blockstore.simulation.violation import Violation

CELL = pa.field("cell", pa.int64())
COLUMNS = (*SCHEMA.names, CELL.name)
_SOURCE = "_source"


def identity_column(kind: Kind) -> str:
    """The column that identifies rows."""
    return ROW_ID if kind is Kind.WITH_IDS else "key"


def batch_of(images: Sequence[Image], schema: pa.Schema) -> pa.RecordBatch:
    """Rows under the table's schema."""
    columns = [
        pa.array([image[place] for image in images], field.type)
        for place, field in enumerate((*SCHEMA, CELL))
    ]
    added = [pa.nulls(len(images), field.type) for field in list(schema)[len(columns) :]]
    return pa.RecordBatch.from_arrays([*columns, *added], names=schema.names)


def images_of(table: pa.Table) -> list[Image]:
    """The rows of a table."""
    times = table["at"].cast(pa.int64()).to_pylist()
    others = (table[name].to_pylist() for name in COLUMNS[1:])
    return [Image(*values) for values in zip(times, *others, strict=True)]


def rows_read(table: pa.Table, kind: Kind) -> dict[int, Row]:
    """What a reader has read, by identity."""
    found: dict[int, Row] = {}
    identities = table[identity_column(kind)].to_pylist()
    versions = table[VERSION].to_pylist()
    for identity, version, image in zip(identities, versions, images_of(table), strict=True):
        if identity in found:
            raise Violation(
                f"a reader sees row {identity} in versions {found[identity].version} and {version}"
            )
        found[identity] = Row(version, image)
    return found


@dataclass(frozen=True, slots=True)
class _Stored:
    """A row as a chunk holds it; None is what the index implies."""

    row_id: int | None
    version: int | None
    image: Image | None


@dataclass(frozen=True, slots=True)
class VersionContent:
    """What a complete block holds."""

    meta: BlockMeta
    by_source: Mapping[str, tuple[_Stored, ...]]
    rows: tuple[_Stored, ...]
    keys: tuple[int | None, ...]
    columns: list[str]
    """Of its chunks, without those that say which version of which row a row is."""

    @property
    def writes(self) -> Mapping[str, frozenset[int]]:
        """The writes that a source holds, where it is one of new rows."""
        if self.meta.kind is not BlockKind.PLAIN or self.meta.level > 1:
            return {}
        (source,) = self.meta.sources
        return {source: frozenset(row.image.write for row in self.rows if row.image is not None)}

    def held(self, version: int, first_row_id: int, kind: Kind) -> tuple[Held, ...]:
        """Its versions of rows, with what the index says of the block."""
        found = []
        for place, (row, key) in enumerate(zip(self.rows, self.keys, strict=True)):
            identity = key
            if kind is Kind.WITH_IDS:
                identity = first_row_id + place if row.row_id is None else row.row_id
            if identity is None:
                raise Violation(f"block {self.meta.ulid} has a row without a key")
            if self.meta.level > 1 and row.version is None:
                raise Violation(f"block {self.meta.ulid} of level 2 has a row without a version")
            known = version if row.version is None else row.version
            found.append(Held(identity, known, row.image))
        return tuple(found)


def read_versions(store: Store, meta: BlockMeta) -> VersionContent:
    """The rows of a block whose chunks are all there, straight from the truth."""
    rows: list[_Stored] = []
    keys: list[int | None] = []
    sources: list[str] = []
    columns: list[str] = []
    for file in meta.chunks:
        data = store.get(object_key(meta.ulid, file.path)).data
        table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
        columns = [name for name in table.schema.names if not name.startswith("_")]
        deleted = _column(table, DELETED)
        ids, versions = _column(table, ROW_ID), _column(table, VERSION)
        keys += table["key"].to_pylist()
        sources += [source or meta.sources[0] for source in _column(table, _SOURCE)]
        for place, image in enumerate(images_of(table)):
            gone = bool(deleted[place])
            rows.append(_Stored(ids[place], versions[place], None if gone else image))
    by_source: dict[str, list[_Stored]] = {}
    for source, row in zip(sources, rows, strict=True):
        by_source.setdefault(source, []).append(row)
    return VersionContent(
        meta=meta,
        by_source={source: tuple(held) for source, held in sorted(by_source.items())},
        rows=tuple(rows),
        keys=tuple(keys),
        columns=columns,
    )


def _column(table: pa.Table, name: str) -> list[Any]:
    if name not in table.schema.names:
        return [None] * table.num_rows
    found: list[Any] = table[name].to_pylist()
    return found
