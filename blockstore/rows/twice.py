"""An identity that occurs twice among the rows of one operation: an error that names it, and the
first two of its rows.

Rule: an operation learns of it at its end, from identities alone. So its rows are read once more to
find out which they are, and only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid
from blockstore.format.block import StreamKey
from blockstore.format.definition import Definition
from blockstore.format.identity import ROW_ID, Identity, RowIds
from blockstore.format.value_text import plain, row_text
from blockstore.operations.access import Access
from blockstore.rows.named import Named
from blockstore.rows.reading import column_like

RULE = "a row occurs once"


class RowTwice(Invalid):
    """One row is named more than once. ``rows`` are the numbers of its first two, where they are
    known, from 0 over all rows of the operation."""

    def __init__(
        self,
        identity: Identity,
        key: Sequence[pa.Scalar],
        times: int,
        stream: StreamKey,
        rows: tuple[int, int] | None = None,
    ) -> None:
        self.column = ", ".join(identity.columns)
        values = tuple(plain(one) for one in key)
        text = row_text(values)
        self.value = values[0] if len(values) == 1 and isinstance(values[0], str) else text
        what = "row id" if isinstance(identity, RowIds) else f"key ({self.column})"
        self.what = f"the {what} {text}"
        at = "" if rows is None else f", first in rows {rows[0]:,} and {rows[1]:,} (from 0)"
        super().__init__(
            f"{self.what} occurs {times} times in these rows{at}, expected each once: keep the row "
            "that counts",
            row=None if rows is None else rows[1],
        )
        self.rows = rows
        self._said = (identity, key, times, stream)

    def among(self, batches: Iterable[pa.RecordBatch], definition: Definition) -> RowTwice:
        """The error with the first two of these rows that have the identity, if there are two."""
        identity, key, times, stream = self._said
        found: list[int] = []
        first = 0
        for batch in batches:
            which = self._which(batch, definition)
            found += [first + place for place in pc.indices_nonzero(which).to_pylist()]
            first += len(batch)
            if len(found) > 1:
                return RowTwice(identity, key, times, stream, (found[0], found[1]))
        return self

    def _which(self, batch: pa.RecordBatch, definition: Definition) -> pa.Array:
        """Which of the rows have the identity."""
        identity, key, _, stream = self._said
        which = pa.repeat(pa.scalar(True), len(batch))
        for name, value in zip(identity.columns, key, strict=True):
            kind = pa.int64() if name == ROW_ID else definition.schema.field(name).type
            column = column_like(batch.column(name), kind, name)
            which = pc.and_(which, pc.fill_null(pc.equal(column, value), False))
        if isinstance(identity, RowIds):
            return which
        for name, label in stream.labels:
            if name in batch.schema.names and name not in definition.schema.names:
                column = column_like(batch.column(name), pa.string(), name)
                which = pc.and_(which, pc.fill_null(pc.equal(column, label), False))
        return which


def refuse_twice(named: Named, identity: Identity) -> None:
    """Raise RowTwice for an identity that occurs more than once among these rows."""
    found = named.twice()
    if found is not None:
        raise RowTwice(identity, *found, named.stream)


@contextmanager
def finding_twice(rows: Iterable[pa.RecordBatch], access: Access) -> Iterator[None]:
    """Let an error about a row that occurs twice say which of ``rows`` these are."""
    try:
        yield
    except RowTwice as error:
        raise error.among(rows, access.log.state.definition) from None
