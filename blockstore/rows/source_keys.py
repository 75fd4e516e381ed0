"""The columns by which a merge matches the rows of its source with those of the table.

Rules:
- They are compared under the table's types, as they would be stored: another unit of times, another
  scale of decimals or another width of integers is the same value.
- A value that the column cannot have, or not without loss, matches nothing, as a null.
- A time with a zone and one without are not compared, as neither is written as the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.format.casting import decoded
from blockstore.scan.identities import identities


class SourceKeys:
    """The keys of the source's rows, and which of them rows of the table have."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        rows = identities(columns)
        coded = rows.dictionary_encode()
        self.rows = rows
        self.values = coded.dictionary
        """Each key once."""
        self._columns = columns
        self._codes = np.asarray(coded.indices.fill_null(len(self.values)).to_numpy())
        self._counts = np.bincount(self._codes, minlength=len(self.values) + 1)
        self._some = np.zeros(len(self.values) + 1, dtype=np.int64)
        self._some[self._codes] = np.arange(len(rows))
        """A row of each key."""
        self._hit = np.zeros(len(self.values) + 1, dtype=np.bool_)

    @classmethod
    def of(cls, source: pa.Table, on: Sequence[str], table: pa.Schema) -> SourceKeys:
        """The keys in the columns ``on``, under the types of the table. Raises Invalid for a type
        that cannot be compared with the table's."""
        return cls([_like(source[name], table.field(name)) for name in on])

    def whole(self) -> list[pa.Array]:
        """The columns of the keys that can match."""
        there = self.rows.is_valid()
        return [column.filter(there) for column in self._columns]

    def match(self, own: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return which of these rows of the table have a key of the source, and for each that has
        the place of a row of the source."""
        # A dictionary of nothing but nulls contains one.
        places = pc.index_in(own, value_set=self.values, skip_nulls=True)
        codes = places.drop_null().to_numpy()
        self._hit[codes] = True
        return places.is_valid(), pa.array(self._some[codes])

    def doubled(self) -> pa.Scalar | None:
        """A key that matched and that several rows of the source have. One that did not may have
        several."""
        both = np.flatnonzero(self._hit & (self._counts > 1))
        return self.values[int(both[0])] if len(both) else None

    def fresh(self) -> pa.Array:
        """Which rows of the source matched none. A null is among them."""
        return pa.array(~self._hit[self._codes])


def _like(values: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    """The values under the type of the table's column; null where there is no such value."""
    kind = field.type.value_type if pt.is_dictionary(field.type) else field.type
    column = decoded(values.combine_chunks())
    if column.type.equals(kind):
        return column
    zoned = pt.is_timestamp(kind) and pt.is_timestamp(column.type)
    try:
        if zoned and (kind.tz is None) != (column.type.tz is None):
            raise pa.ArrowNotImplementedError("a time with a zone, and one without")
        if pt.is_integer(column.type) and pt.is_decimal(kind):
            # Arrow has no cast to a decimal that is too short for some integer.
            column = column.cast(pa.decimal256(76, kind.scale))
        return _cast(column, kind)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise Invalid(
            f"the merge is on {field.name!r}, which is {column.type} in the source and {kind} in "
            "the table, and these cannot be compared: cast the source's column"
        ) from None


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast each value that can be cast without loss; the others become null."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        pass
    try:
        again = column.cast(kind, safe=False).cast(column.type, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _one_by_one(column, kind)
    kept = pc.if_else(pc.equal(column, again), column, pa.scalar(None, column.type))
    return _one_by_one(kept, kind)


def _one_by_one(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same by halves, since Arrow does not say which value cannot be cast."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        if len(column) == 1:
            return pa.nulls(1, kind)
    half = len(column) // 2
    parts = [_one_by_one(one, kind) for one in (column[:half], column[half:])]
    return pa.concat_arrays(parts)
