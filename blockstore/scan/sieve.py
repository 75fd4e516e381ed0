"""Which blocks can hold matching rows by the statistics of their chunks, told for all blocks of an index at once.

Rules:
- What is made of the statistics is kept with the blocks, a column at a time: the first condition on a column reads the metas
  of the blocks that time and labels leave, later ones compare two arrays. So blocks that cannot match cost next to
  nothing, however many they are.
- Coarser than the judgment of a chunk (``plan.py``), never finer: of a condition it knows the range of each column's values
  alone, and of a block the range over its chunks. What is not known, or not sound, stays and is judged there.
- The time column is not looked at: the blocks' own time ranges have been compared by then.
- NaN is above all numbers: a chunk that may hold one has no upper bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blockstore.errors import Corrupt, Invalid
from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.index.derived import Arrays, Mask
from blockstore.index.rows import LiveBlock
from blockstore.predicate import Predicate
from blockstore.predicate.bounds import bounds_from_statistics
from blockstore.predicate.literals import Kind, kind_of
from blockstore.predicate.nodes import Column, Key
from blockstore.predicate.prune import Bounds, Hull
from blockstore.scan.columns import Schemas, reads_of
from blockstore.scan.snapshot import Snapshot

__all__ = ["Sieved", "sieve"]

_INT64 = np.iinfo(np.int64)
_INTEGERS: tuple[type, object] = (np.int64, 0)
_HELD: dict[Kind, tuple[type, object]] = {
    Kind.INTEGER: _INTEGERS,
    Kind.DATE: _INTEGERS,
    Kind.TIMESTAMP: _INTEGERS,
    Kind.TIME: _INTEGERS,
    Kind.FLOAT: (np.float64, 0.0),
    Kind.STRING: (np.object_, ""),
}
"""How the keys of a column are held, and what stands where a bound is unknown; other kinds are judged chunk by chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sieved:
    """What a sieve has done."""

    may: Mask
    """The blocks that can hold matching rows."""
    chunks: int
    """How many chunks those have that went."""


def sieve(snapshot: Snapshot, predicate: Predicate, wanted: Mask) -> Sieved:
    """What the statistics leave of the ``wanted`` blocks of ``snapshot.blocks.table()``."""
    definition = snapshot.definition
    may, chunks = wanted, 0
    for name in predicate.columns:
        place = definition.schema.get_field_index(name)
        hull = predicate.hull(name)
        if place < 0 or name == definition.time_column or (hull.low is None and hull.high is None):
            continue
        column = Column(name, definition.schema.field(place).type)
        kind = kind_of(column.type)
        if kind in _HELD:
            make = _Maker(definition, column, kind)
            asked = np.flatnonzero(may)
            held = [array[asked] for array in snapshot.blocks.derived(name, definition, make, may)]
            left = _within(hull, *held[:4])
            chunks += int(held[4][~left].sum())
            may = np.zeros_like(may)
            may[asked[left]] = True
    return Sieved(may=may, chunks=chunks)


def _within(hull: Hull, low: Any, high: Any, open_low: Mask, open_high: Mask) -> Mask:
    """Whether the ranges from ``low`` to ``high`` meet the hull."""
    may = np.ones(len(open_low), dtype=bool)
    if hull.low is not None:
        may &= (high >= _held(hull.low)) | open_high
    if hull.high is not None:
        may &= (low <= _held(hull.high)) | open_low
    return may


def _held(key: Key) -> Key:
    """A key beyond the integers that are held counts as the last of them."""
    return max(int(_INT64.min), min(int(_INT64.max), key)) if isinstance(key, int) else key


class _Maker:
    """Makes the bounds of one column, a place a block: low, high, whether each is unknown, and the number of chunks."""

    def __init__(self, definition: Definition, column: Column, kind: Kind) -> None:
        self._definition = definition
        self._column = column
        self._is_float = kind is Kind.FLOAT
        self._type, self._unknown = _HELD[kind]

    def __call__(self, blocks: Sequence[LiveBlock]) -> Arrays:
        schemas = Schemas(self._definition)
        names: dict[int, dict[str, str | None]] = {}
        hulls = [self._hull(block.meta, schemas, names) for block in blocks]
        lows, highs = [low for low, _ in hulls], [high for _, high in hulls]
        return (
            self._array(lows),
            self._array(highs),
            np.array([low is None for low in lows], dtype=bool),
            np.array([high is None for high in highs], dtype=bool),
            np.array([len(block.meta.chunks) for block in blocks], dtype=np.int64),
        )

    def _array(self, keys: Sequence[Key | None]) -> Any:
        return np.array([self._unknown if key is None else key for key in keys], dtype=self._type)

    def _hull(
        self, meta: BlockMeta, schemas: Schemas, names: dict[int, dict[str, str | None]]
    ) -> tuple[Key | None, Key | None]:
        """The range of the column over all chunks; None = unknown."""
        try:
            id_ = schemas.id_of(meta.schema_id, meta.schema, meta.ulid)
            if id_ not in names:
                reads = reads_of(schemas.schema(id_), self._definition.schema)
                names[id_] = {name: read.stored_as for name, read in reads.items()}
            stored, schema = names[id_], schemas.schema(id_)
            bounds = [
                bounds_from_statistics(file.columns, schema, file.rows, names=stored)(self._column)
                for file in meta.chunks
            ]
        except (Corrupt, Invalid):
            return None, None
        return (
            self._outermost([one.low for one in bounds], min),
            self._outermost([None if self._may_hold_nan(one) else one.high for one in bounds], max),
        )

    def _may_hold_nan(self, bounds: Bounds) -> bool:
        return self._is_float and bounds.nans != 0

    def _outermost(self, bounds: Sequence[Key | None], choose: Callable[[list[Any]], Key]) -> Key | None:
        """The least or the greatest of the bounds; None if one of them is unknown or cannot be held exactly."""
        known = [bound for bound in bounds if bound is not None and self._holds(bound)]
        return choose(known) if known and len(known) == len(bounds) else None

    def _holds(self, key: Key) -> bool:
        if not isinstance(key, int):
            return True
        return int(float(key)) == key if self._is_float else int(_INT64.min) <= key <= int(_INT64.max)
