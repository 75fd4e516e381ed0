"""A block of changes while it is written: new images of rows, and tombstones.

Rules:
- An identity occurs once in a block; a second time is an error that names it.
- Rows come under the table's schema, checked as any new rows are; the columns of a tombstone are
  null, whatever the schema says, except those of its identity.
- Where rows have ids, a row without one is new: the entry gives it an id.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid
from blockstore.format.block import BlockKind, BlockMeta, Job, StreamKey, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.casting import cast_batch
from blockstore.format.definition import Definition
from blockstore.format.identity import DELETED, ROW_ID, RowIds
from blockstore.format.schema import with_reserved
from blockstore.operations.access import Access
from blockstore.operations.staging import complete, uploading
from blockstore.rows.named import Named


class ChangesWriter:
    """Writes one block of changes; use it as a context manager, and end it with ``finish``."""

    def __init__(
        self,
        access: Access,
        definition: Definition,
        *,
        producer: str,
        labels: Mapping[str, str] | None = None,
        job: Job | None = None,
        buffer_bytes: int = 256 << 20,
    ) -> None:
        assert definition.identity is not None, "rows without an identity never change"
        self._access = access
        self._definition = definition
        self._identity = definition.identity
        self._producer = producer
        own = definition.labels if labels is None else labels
        self._stream = StreamKey(tuple(sorted(own.items())), 0)
        self._extra = (*((ROW_ID,) if self._has_ids else ()), DELETED)
        self._schema = with_reserved(definition.schema, self._extra)
        self._named = Named(self._identity, self._stream)
        self.rows = 0
        """New images and tombstones so far."""
        self._chunks = BlockWriter(
            access.bucket,
            access.world,
            access.world.ids.ulid(),
            definition,
            labels=own,
            producer=producer,
            job=job,
            extra_columns=self._extra,
            buffer_bytes=buffer_bytes,
        )

    @property
    def _has_ids(self) -> bool:
        return isinstance(self._identity, RowIds)

    def put(self, rows: pa.RecordBatch, ids: pa.Array | None = None) -> None:
        """Take complete new images. ``ids`` are their row ids, null for new rows; none where all
        are new, or the table has a key. Raises Invalid for rows that do not fit."""
        cast = cast_batch(rows, self._definition, first_row=self.rows)
        columns = list(cast.columns)
        if self._has_ids:
            ids = pa.nulls(len(cast), pa.int64()) if ids is None else ids.cast(pa.int64())
            columns.append(ids)
        columns.append(pa.repeat(pa.scalar(False), len(cast)))
        self._take(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def delete(self, keys: pa.RecordBatch) -> None:
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
        self._take(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def finish(self) -> tuple[BlockMeta, Named] | None:
        """Make the block durable; return it with the existing rows that it names.

        None if there is no row. Raises Invalid for an identity that occurs twice.
        """
        self._check_once()
        with uploading(self._producer):
            written = self._chunks.finish_block()
            if not written.rows:
                return None
            meta = self._chunks.describe(
                written,
                visible_by=VisibleBy.INDEX,
                kind=BlockKind.CHANGES,
                uploaded_time=self._access.world.clock.now_ms(),
            )
            return complete(self._access, meta), self._named

    def __enter__(self) -> ChangesWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._chunks.abort()

    def _take(self, batch: pa.RecordBatch) -> None:
        own = [batch.column(name) for name in self._identity.columns]
        if self._has_ids:
            own = [own[0].drop_null()]
        else:
            self._refuse_nulls(batch)
        self._named.add(own)
        self._chunks.write(batch)
        self.rows += batch.num_rows

    def _refuse_nulls(self, batch: pa.RecordBatch) -> None:
        for name in self._identity.columns:
            column = batch.column(name)
            if column.null_count:
                row = self.rows + pc.index(pc.is_null(column), True).as_py()
                raise Invalid(
                    f"column {name!r} is null in row {row:,} (counted from 0), and it is part of "
                    "the key, which identifies a row: give every row one",
                    row=row,
                )

    def _check_once(self) -> None:
        found = self._named.twice()
        if found is not None:
            what = "row id" if self._has_ids else f"key ({', '.join(self._identity.columns)})"
            raise Invalid(
                f"the {what} {found[0]!r} occurs {found[1]} times in these rows, expected each "
                "once: keep the row that counts"
            )
