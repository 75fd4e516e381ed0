"""The columns by which a merge matches the rows of its source with those of the table.

Rules:
- They are compared under the table's types, as they would be stored: another unit of times, another
  scale of decimals or another width of integers is the same value.
- A value that the column cannot have, or not without loss, matches nothing, as a null.
- A time with a zone and one without are not compared, as neither is written as the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
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
        self._order = np.argsort(self._codes, kind="stable")
        """The rows, those of one key after those of another."""
        self._first = np.cumsum(self._counts) - self._counts
        """Of each key, where its rows begin there."""
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

    def match(self, own: pa.Array) -> tuple[pa.Array, Pairs]:
        """Return which of these rows of the table have a key of the source, and the pairs of each
        that has with a row of the source."""
        # A dictionary of nothing but nulls contains one.
        places = pc.index_in(own, value_set=self.values, skip_nulls=True)
        codes = places.drop_null().to_numpy()
        self._hit[codes] = True
        return places.is_valid(), Pairs(self._order, self._first[codes], self._counts[codes])

    def fresh(self) -> pa.Array:
        """Which rows of the source matched none. A null is among them."""
        return pa.array(~self._hit[self._codes])


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows of the table, each with all rows of the source that have its key."""

    _order: npt.NDArray[np.int64]
    _first: npt.NDArray[np.int64]
    _counts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self._first)

    @property
    def single(self) -> bool:
        """Whether each row of the table has one row of the source."""
        return bool((self._counts == 1).all())

    def one(self) -> npt.NDArray[np.int64]:
        """A row of the source for each row of the table: the first."""
        return self._order[self._first]

    def two(self) -> int | None:
        """A row of the source whose key several have; None if there is none."""
        several = np.flatnonzero(self._counts > 1)
        return int(self._order[self._first[several[0]]]) if len(several) else None

    def pieces(
        self, most: int
    ) -> Iterator[tuple[slice, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Yield rows of the table, and the pairs of these: the places of both, those of the table
        within the piece. About ``most`` pairs at once, but all those of a row together."""
        ends = np.cumsum(self._counts)
        start = 0
        while start < len(self):
            before = ends[start] - self._counts[start]
            stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
            counts = self._counts[start:stop]
            skipped = np.cumsum(counts) - counts
            within = np.arange(counts.sum()) - np.repeat(skipped, counts)
            source = self._order[np.repeat(self._first[start:stop], counts) + within]
            yield slice(start, stop), np.repeat(np.arange(len(counts)), counts), source
            start = stop


def _like(values: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    """The values under the type of the table's column; null where there is no such value."""
    kind = field.type.value_type if pt.is_dictionary(field.type) else field.type
    column = decoded(values.combine_chunks())
    if column.type.equals(kind):
        return column
    zoned = pt.is_timestamp(kind) and pt.is_timestamp(column.type)
    try:
        if zoned and (kind.tz is None) != (column.type.tz is None):
            raise _incomparable(field.name, column.type, kind)
        if pt.is_integer(column.type) and pt.is_decimal(kind):
            # Arrow has no cast to a decimal that is too short for some integer.
            column = column.cast(pa.decimal256(76, kind.scale))
        return _cast(column, kind)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise _incomparable(field.name, column.type, kind) from None


def _incomparable(name: str, found: pa.DataType, kind: pa.DataType) -> Invalid:
    return Invalid(
        f"the merge is on {name!r}, which is {found} in the source and {kind} in the table, and "
        "these cannot be compared: cast the source's column"
    )


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
