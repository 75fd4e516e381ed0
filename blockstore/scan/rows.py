"""Batches of a chunk turned into rows of a scan: everything that ``ScanChunk`` says, applied with
pyarrow.

The order: bring the stored columns under the table's schema, add labels and hidden columns, drop
rows by their source, apply the condition, keep the columns of the output.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Corrupt
from blockstore.format.chunk_reader import JudgeGroups
from blockstore.format.identity import DELETED, ROW_ID, VERSION
from blockstore.format.schema import adapt
from blockstore.scan.chunk import Positions, ScanChunk
from blockstore.scan.groups import judge_groups
from blockstore.scan.plan import ScanPlan

_BATCH_ROWS = 65_536


class RowReader:
    """Reads the batches of one plan; holds nothing of any chunk, so threads may share it."""

    def __init__(self, plan: ScanPlan) -> None:
        self._plan = plan
        self._output = plan.output_schema
        self._predicate = plan.predicate
        self._table_names = frozenset(plan.columns.table.names)
        self._schemas: dict[bool, pa.Schema] = {}

    def stored_columns(self, chunk: ScanChunk) -> list[str]:
        """The columns to read out of the chunk's file; none = its rows follow from metadata."""
        reads = self._plan.reads(chunk.schema_id)
        names = []
        for name in self._needed(chunk.certain).names:
            if name in self._table_names:
                stored = reads[name].stored_as
                if stored is not None:
                    names.append(stored)
            elif name in chunk.carries:
                names.append(name)
        if chunk.filtered and "_source" not in names:
            names.append("_source")
        return names

    def judge_groups(self, chunk: ScanChunk) -> JudgeGroups | None:
        """Which row groups of the chunk's file may hold rows of the scan;

        None where all of them do.
        """
        return None if chunk.certain else judge_groups(self._plan, chunk)

    def constant_batches(self, chunk: ScanChunk) -> Iterator[pa.RecordBatch]:
        """The rows of a chunk of whose file nothing is needed."""
        for position in range(0, chunk.file.rows, _BATCH_ROWS):
            count = min(_BATCH_ROWS, chunk.file.rows - position)
            nothing = pa.StructArray.from_buffers(pa.struct([]), count, [None])
            rows = self.rows(chunk, pa.RecordBatch.from_struct_array(nothing), position)
            if rows.num_rows:
                yield rows

    def rows(self, chunk: ScanChunk, batch: pa.RecordBatch, position: int) -> pa.RecordBatch:
        """The rows of a batch of the chunk that starts at row ``position`` of it."""
        wanted = self._needed(chunk.certain)
        columns = [self._column(chunk, batch, position, field) for field in wanted]
        rows = pa.RecordBatch.from_arrays(columns, schema=wanted)
        if chunk.filtered:
            rows = rows.filter(_by_source(chunk, batch))
        elif chunk.hidden is not None:
            rows = _without(rows, chunk.hidden, position)
        if not chunk.certain and not self._predicate.everything:
            rows = self._predicate.filtered(rows)
        return (
            rows.select(self._output.names).cast(self._output)
            if rows.schema != self._output
            else rows
        )

    def _needed(self, certain: bool) -> pa.Schema:
        """The columns of chunks of whose rows all, or perhaps not all, meet the condition."""
        needed = self._schemas.get(certain)
        if needed is None:
            names = self._output.names if certain else self._plan.needed
            by_name = {**self._plan.columns.by_name, **{one.name: one for one in self._output}}
            needed = self._schemas[certain] = pa.schema([by_name[name] for name in names])
        return needed

    def _column(
        self, chunk: ScanChunk, batch: pa.RecordBatch, position: int, field: pa.Field
    ) -> pa.Array:
        name, count = field.name, batch.num_rows
        if name in self._table_names:
            return self._table_column(chunk, batch, field)
        if name in chunk.labels:
            return _constant(chunk.labels[name], pa.string(), count)
        if name == "_source":
            return (
                _carried(chunk, batch)
                if chunk.source is None
                else _constant(chunk.source, pa.string(), count)
            )
        if name == VERSION:
            if chunk.version is None:
                return _stored(chunk, batch, VERSION)
            return _constant(chunk.version, pa.int64(), count)
        if name == DELETED:
            if DELETED in chunk.carries:
                return _stored(chunk, batch, DELETED)
            return _constant(False, pa.bool_(), count)
        stored = _stored(chunk, batch, ROW_ID) if ROW_ID in chunk.carries else None
        if chunk.first_row_id is None:
            assert stored is not None, "a plan reads _row_id only where it is known"
            return stored
        first = chunk.first_row_id + position
        given = pa.array(np.arange(first, first + count))
        return given if stored is None else pc.coalesce(stored, given)

    def _table_column(self, chunk: ScanChunk, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        stored = self._plan.reads(chunk.schema_id)[field.name].stored_as
        if stored is None:
            return pa.nulls(batch.num_rows, field.type)
        at = batch.schema.get_field_index(stored)
        if at < 0:
            raise Corrupt(
                f"{chunk.file.path} lacks column {stored!r}, which its schema has: restore it "
                "from a copy"
            )
        if batch.column(at).type.equals(field.type):
            return batch.column(at)
        one = pa.RecordBatch.from_arrays(
            [batch.column(at)], schema=pa.schema([batch.schema.field(at)])
        )
        return adapt(one, pa.schema([field])).column(0)


def _by_source(chunk: ScanChunk, batch: pa.RecordBatch) -> pa.Array:
    source = _carried(chunk, batch)
    if source.null_count:
        raise Corrupt(
            f"{chunk.file.path} has rows without a _source, expected one in each: restore it from "
            "a copy"
        )
    keep = None
    if chunk.sources is not None:
        keep = pc.is_in(source, value_set=pa.array(sorted(chunk.sources), pa.string()))
    if chunk.excepted is not None:
        left = pc.invert(pc.is_in(source, value_set=pa.array(sorted(chunk.excepted), pa.string())))
        keep = left if keep is None else pc.and_(keep, left)
    return keep


def _carried(chunk: ScanChunk, batch: pa.RecordBatch) -> pa.Array:
    """The ``_source`` that the chunk carries itself."""
    at = batch.schema.get_field_index("_source")
    if at < 0:
        raise Corrupt(
            f"{chunk.file.path} lacks the column _source, which a merge has: restore it from a copy"
        )
    return batch.column(at).cast(pa.string())


def _without(rows: pa.RecordBatch, hidden: Positions, position: int) -> pa.RecordBatch:
    """The rows of a batch that starts at ``position``, without those that are hidden."""
    low, high = np.searchsorted(hidden, (position, position + rows.num_rows))
    if low == high:
        return rows
    shown = np.ones(rows.num_rows, dtype=bool)
    shown[hidden[low:high] - position] = False
    return rows.filter(pa.array(shown))


def _stored(chunk: ScanChunk, batch: pa.RecordBatch, name: str) -> pa.Array:
    """A reserved column that the chunk carries."""
    at = batch.schema.get_field_index(name)
    if at < 0:
        raise Corrupt(
            f"{chunk.file.path} lacks the column {name}, which its block has: restore it from a "
            "copy"
        )
    return batch.column(at)


def _constant(value: str | int | None, type_: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, type_), count)
