"""New images of rows and tombstones under the schema of a block of changes. Pure.

Rules:
- An identity occurs once in a block; a second time is an error that names it.
- Rows come under the table's schema, checked as any new rows are; the columns of a tombstone are
  null, whatever the schema says, except those of its identity.
- Where rows have ids, a row without one is new: the entry gives it an id.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.format.block import StreamKey
from blockstore.format.casting import cast_batch
from blockstore.format.constraints import BrokenRule
from blockstore.format.definition import Definition
from blockstore.format.identity import DELETED, ROW_ID, Identity, RowIds
from blockstore.format.schema import with_reserved
from blockstore.rows.named import Named
from blockstore.rows.twice import refuse_twice


class Images:
    """The rows of one writer of a block: each batch as its chunks hold it, and what they name."""

    def __init__(self, definition: Definition, stream: StreamKey) -> None:
        assert definition.identity is not None, "rows without an identity never change"
        self._definition = definition
        self._identity: Identity = definition.identity
        self.extra = (*((ROW_ID,) if self._has_ids else ()), DELETED)
        """The reserved columns that follow the schema's."""
        self._schema = with_reserved(definition.schema, self.extra)
        self.named = Named(self._identity, stream)
        """The existing rows that they name."""
        self.left = Named(self._identity, stream)
        """Rows that are as they should become, and left so."""
        self.rows = 0
        """New images and tombstones so far."""

    def complete(self, rows: pa.RecordBatch, ids: pa.Array | None = None) -> pa.RecordBatch:
        """Take complete new images. ``ids`` are their row ids, null for new rows; none where all
        are new, or the table has a key. Raises Invalid for rows that do not fit."""
        cast = cast_batch(rows, self._definition, first_row=self.rows)
        columns = list(cast.columns)
        if self._has_ids:
            ids = pa.nulls(len(cast), pa.int64()) if ids is None else ids.cast(pa.int64())
            columns.append(ids)
        columns.append(pa.repeat(pa.scalar(False), len(cast)))
        return self._taken(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def tombstones(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Take tombstones for the rows of these identities: the columns of the key, or
        ``_row_id``."""
        known = dict(zip(keys.schema.names, keys.columns, strict=True))
        columns = [
            known[field.name].cast(field.type)
            if field.name in known
            else pa.nulls(len(keys), field.type)
            for field in self._schema
        ]
        columns[-1] = pa.repeat(pa.scalar(True), len(keys))
        return self._taken(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def check_once(self) -> None:
        """Raise RowTwice for an identity that occurs twice, also among rows that are left."""
        refuse_twice(self.named.and_others(self.left), self._identity)

    @property
    def _has_ids(self) -> bool:
        return isinstance(self._identity, RowIds)

    def _taken(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        own = [batch.column(name) for name in self._identity.columns]
        if self._has_ids:
            own = [own[0].drop_null()]
        else:
            self._refuse_nulls(batch)
        self.named.add(own)
        self.rows += batch.num_rows
        return batch

    def _refuse_nulls(self, batch: pa.RecordBatch) -> None:
        for name in self._identity.columns:
            column = batch.column(name)
            if column.null_count:
                row = self.rows + pc.index(pc.is_null(column), True).as_py()
                raise BrokenRule(
                    f"column {name!r} is null in row {row:,} (counted from 0), and it is part of "
                    "the key, which identifies a row: give every row one",
                    row=row,
                    column=name,
                    value="null",
                    rule="not null",
                )
