"""The versions of rows in a merge, where rows have an identity: the columns that say which version
of which row each row is, and the rows that are left out.

Rules (design 8.5):
- The result carries ``_version``, ``_row_id`` where rows have ids, and ``_deleted`` unless it is
  plain. What a chunk of level 1 implies is filled in: its block's version, and of a row without an
  id the place of the row in its block, counted from the block's first row id.
- A row that is left out is read, and has the number of no source: it is dropped as the rows of an
  excepted source are, and counted.
- A block of history takes exactly the rows that are left out; all have its own source.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.format.block import BlockKind
from blockstore.format.fields import RESERVED
from blockstore.format.identity import DELETED, ROW_ID, VERSION, Identity, stored_columns

LEFT_OUT = -1
"""The number of the source of rows that are left out."""

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Implied:
    """What the index says of the rows of a chunk, and which of them are left out."""

    version: int | None = None
    """The version of all rows; None if the chunk has a column of it."""
    first_row_id: int | None = None
    """The row id of its first row, which rows without one of their own follow; None if the chunk
    has a complete column."""
    carries: frozenset[str] = frozenset()
    """The reserved columns that the chunk has."""
    left_out: Positions | None = None
    """The positions, sorted, of the rows to leave out; None = of none."""
    former: int | None = None
    """The number of the source of exactly these rows, in a block of history; None elsewhere."""


def extra_columns(identity: Identity | None, kind: BlockKind) -> tuple[str, ...]:
    """The reserved columns that chunks of a merge have after ``_source``."""
    if identity is None:
        return ()
    return (*stored_columns(identity), *(() if kind is BlockKind.PLAIN else (DELETED,)))


class Places:
    """The positions in a chunk of the rows that are read, in the order of some row groups."""

    def __init__(self, groups: Sequence[tuple[int, int]]) -> None:
        """``groups`` are the first position of each row group, and its rows."""
        self._left = [(first, first + rows) for first, rows in groups if rows]

    def next(self, count: int) -> Positions:
        """Those of the next ``count`` rows."""
        parts = []
        while count:
            first, last = self._left[0]
            taken = min(count, last - first)
            parts.append(np.arange(first, first + taken))
            count -= taken
            if first + taken == last:
                self._left.pop(0)
            else:
                self._left[0] = (first + taken, last)
        return np.concatenate(parts) if len(parts) != 1 else parts[0]


def missing(implied: Implied, names: Collection[str], columns: Collection[str]) -> str | None:
    """A column that the chunk lacks of those that the merge needs from it."""
    needed = {name for name in columns if name in implied.carries}
    return next((name for name in sorted(needed) if name not in names), None)


def numbered(numbers: pa.Array, implied: Implied, places: Positions) -> pa.Array:
    """The numbers of the rows' sources, with that of rows that are left out."""
    left_out = implied.left_out
    if left_out is None:
        return numbers
    among = np.zeros(len(places), dtype=bool)
    at = np.minimum(left_out.searchsorted(places), len(left_out) - 1)
    among[:] = left_out[at] == places
    if implied.former is not None:
        return pa.array(np.where(among, implied.former, LEFT_OUT).astype(np.int32))
    known = numbers.to_numpy(zero_copy_only=False)
    return pa.array(np.where(among, LEFT_OUT, known).astype(np.int32))


def column(name: str, rows: pa.Table, implied: Implied, places: Positions) -> pa.Array:
    """One of ``extra_columns`` of rows that were read. Raises ArrowInvalid for rows that lack what
    says which version they are."""
    field = RESERVED[name]
    stored = rows.column(name).combine_chunks() if name in implied.carries else None
    if name == DELETED and stored is None:
        return pa.repeat(pa.scalar(False), rows.num_rows)
    if name == VERSION and implied.version is not None:
        return pa.repeat(pa.scalar(implied.version, field.type), rows.num_rows)
    if name == ROW_ID and implied.first_row_id is not None:
        given = pa.array(places + implied.first_row_id)
        return given if stored is None else pc.coalesce(stored, given)
    if stored is None or stored.null_count:
        raise pa.ArrowInvalid(f"rows without a {name}, expected one in each")
    return stored.cast(field.type)
