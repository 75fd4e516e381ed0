"""The leaves that can hold blocks of a scan, by their sums: the others are not loaded.

Rules:
- Coarser than the judgment of a block (``candidates.py``, ``sieve.py``), never finer: a leaf is
  left out only if each of its blocks would be.
- What is left out is counted as if each block had been judged: by time, else by labels, else by the
  statistics of its chunks. A leaf for which that differs by block is loaded.
- The range of a leaf's sort column counts only where its schema calls that column so, and where it
  is of the kind that the table's column has now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa

from blockstore.format.definition import Definition
from blockstore.index.blocks import Blocks
from blockstore.index.tree.sums import BlockSums
from blockstore.predicate import Predicate
from blockstore.predicate.literals import TIMED, Kind, kind_of, unit_ns
from blockstore.scan.columns import Schemas
from blockstore.scan.ranges import GREATEST, LEAST, Ranges

_WHOLE = frozenset({Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP, Kind.TIME})


class Reason(Enum):
    """Why a leaf is left out."""

    TIME = "time"
    LABELS = "labels"
    STATISTICS = "statistics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """The blocks of the leaves that may match."""

    blocks: Blocks
    by_time: int = 0
    """Blocks of the others."""
    by_labels: int = 0
    chunks: int = 0
    """Chunks of those left out by statistics."""


def near(
    blocks: Blocks,
    definition: Definition,
    predicate: Predicate,
    time_ms: tuple[int, int],
    may_stream: Callable[[str], bool],
) -> Near:
    """The blocks without those of leaves that cannot hold matching rows. ``time_ms`` is the first
    and the last millisecond of matching rows; ``may_stream`` says whether a stream may match."""
    judge = _Judge(definition, predicate, time_ms, may_stream)
    rest, sums = blocks.summed(lambda leaf: judge.reason(leaf) is not None)
    out: Counter[Reason] = Counter()
    chunks = 0
    for leaf in sums:
        reason = judge.reason(leaf)
        assert reason is not None, "it was left out"
        out[reason] += leaf.count
        if reason is Reason.STATISTICS:
            chunks += leaf.chunks
    return Near(blocks=rest, by_time=out[Reason.TIME], by_labels=out[Reason.LABELS], chunks=chunks)


class _Judge:
    """Judges leaves."""

    def __init__(
        self,
        definition: Definition,
        predicate: Predicate,
        time_ms: tuple[int, int],
        may_stream: Callable[[str], bool],
    ) -> None:
        self._predicate = predicate
        self._definition = definition
        self._first, self._last = time_ms
        self._may_stream = may_stream
        self._columns: dict[tuple[int, str], tuple[str, int] | None] = {}

    def reason(self, leaf: BlockSums) -> Reason | None:
        """Why none of the blocks may match; None where one may."""
        if leaf.min_time > self._last or leaf.max_time <= self._first:
            return Reason.TIME
        # Each of its blocks would be within: else some count by time and some do not.
        within = leaf.max_min_time <= self._last and leaf.min_max_time > self._first
        if not within or leaf.streams is None:
            return None
        verdicts = [self._may_stream(stream) for stream in leaf.streams]
        if not any(verdicts):
            return Reason.LABELS
        return Reason.STATISTICS if all(verdicts) and self._misses(leaf) else None

    def _misses(self, leaf: BlockSums) -> bool:
        key = leaf.key
        if key is None:
            return False
        named = (key.schema_id, key.column)
        if named not in self._columns:
            self._columns[named] = self._column(*named)
        column = self._columns[named]
        if column is None:
            return False
        name, unit = column
        if key.low * unit < LEAST or key.high * unit > GREATEST:
            return False
        known = np.zeros(1, dtype=bool)
        low, high = (np.array([one * unit], dtype=np.int64) for one in (key.low, key.high))
        return not bool(Ranges(low, high, known, known).meet(self._predicate.hull(name))[0])

    def _column(self, schema_id: int, stored: str) -> tuple[str, int] | None:
        """The table's column that a schema calls so, and the nanoseconds of its unit, 1 where it is
        no time; None where its range says nothing."""
        definition = self._definition
        if schema_id not in definition.schemas:
            return None
        schemas = Schemas(definition)
        names: Mapping[str, str | None] = schemas.stored_names(schema_id)
        found = [name for name, one in names.items() if one == stored]
        if len(found) != 1 or found[0] == definition.time_column:
            return None
        place = definition.schema.get_field_index(found[0])
        if place < 0 or found[0] not in self._predicate.columns:
            return None
        held = schemas.schema(schema_id).field(stored).type
        kind = kind_of(held)
        if pa.types.is_dictionary(held):
            return None
        if kind not in _WHOLE or kind is not kind_of(definition.schema.field(place).type):
            return None
        return found[0], unit_ns(held) if kind in TIMED else 1
