"""The columns of a change, and the plans that read them.

Rules:
- All changes of one reading have one schema, that of the table's newest definition: older rows are
  read under it, as in any snapshot.
- ``_change``, ``_version``, ``_time`` and ``_reason`` come first, then ``_row_id`` where rows have
  ids, then the table's columns and labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.feed.entries import Moment, Shown
from blockstore.format.definition import Definition
from blockstore.format.identity import ROW_ID, VERSION, RowIds
from blockstore.index.blocks import Blocks
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.lazy import once
from blockstore.scan.columns import Columns
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.snapshot import Snapshot

CHANGE = "_change"
TIME = "_time"
REASON = "_reason"

_OWN = pa.schema(
    [
        (CHANGE, pa.string()),
        (VERSION, pa.int64()),
        (TIME, pa.timestamp("ms", "UTC")),
        (REASON, pa.string()),
    ]
)


class Kind(IntEnum):
    """What happened to a row."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    UPDATE_BEFORE = 3


Kinds = npt.NDArray[np.int8]
"""The ``Kind`` of each of some rows."""

_NAMES = pa.array([kind.name.lower() for kind in Kind])


@dataclass(frozen=True, kw_only=True)
class Form:
    """The columns of all changes of one reading."""

    definition: Definition
    labels: tuple[str, ...]

    @classmethod
    def of(cls, state: State, labels: Iterable[str] = ()) -> Form:
        """Return the form of a state's definition, with its labels and others. Raises Invalid where
        a column of the table has the name of one of the feed's."""
        known = Snapshot.of(state).label_names.union(labels)
        form = cls(definition=state.definition, labels=tuple(sorted(known)))
        taken = sorted(set(_OWN.names) & set(form.rows.names))
        if taken:
            raise Invalid(
                f"the table has a column {taken[0]!r}, which is the name of a column of its "
                "changes: rename it with alter"
            )
        return form

    @once
    def columns(self) -> Columns:
        """Every column that a change could have."""
        return Columns.of(self.definition, self.labels)

    @once
    def rows(self) -> pa.Schema:
        """The columns of a row, its id first where it has one."""
        ids = (ROW_ID,) if isinstance(self.definition.identity, RowIds) else ()
        return self.columns.select([*ids, *self.columns.visible.names])

    @once
    def schema(self) -> pa.Schema:
        """The columns of a change."""
        return pa.schema([*_OWN, *self.rows])

    def snapshot(self, blocks: Iterable[LiveBlock]) -> Snapshot:
        """Return these blocks, read under the definition."""
        held = blocks if isinstance(blocks, Blocks) else Blocks.of(blocks)
        return Snapshot(definition=self.definition, blocks=held, labels=frozenset(self.labels))

    def plan(self, blocks: Iterable[LiveBlock]) -> ScanPlan:
        """Return what reads the rows of blocks as they are, whatever hides them."""
        plan = plan_scan(self.snapshot(blocks), columns=self.rows.names, labels=self.labels)
        return replace(plan, changes=())

    def plan_shown(self, shown: Iterable[Shown]) -> ScanPlan:
        """Return what reads some rows of blocks of a table whose rows have no identity."""
        chosen = {one.block.ulid: one for one in shown}
        plan = self.plan(one.block for one in chosen.values())
        chunks = (
            replace(chunk, sources=chosen[chunk.block].only)
            if chosen[chunk.block].only is not None and chunk.source is None
            else chunk
            for chunk in plan.chunks
        )
        return replace(plan, chunks=tuple(chunks))

    def batches(
        self, rows: pa.RecordBatch | pa.Table, kinds: Kinds | Kind, moment: Moment
    ) -> list[pa.RecordBatch]:
        """Return rows as changes of one version."""
        count = rows.num_rows
        codes = np.full(count, int(kinds), np.int8) if isinstance(kinds, Kind) else kinds
        own = [
            _NAMES.take(pa.array(codes)),
            pa.repeat(pa.scalar(moment.version, pa.int64()), count),
            pa.repeat(pa.scalar(moment.time_ms, _OWN.field(TIME).type), count),
            pa.repeat(pa.scalar(moment.reason, pa.string()), count),
        ]
        table = pa.Table.from_arrays([*own, *rows.columns], schema=self.schema)
        return [batch for batch in table.to_batches() if batch.num_rows]
