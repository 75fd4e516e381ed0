"""The existing rows that a block of changes names, by identity.

Rule: hashes of keys are computed only where they are needed: by a commit that finds other entries,
or to say what a small change touched. A change of a million rows says that any may be touched.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.format.block import StreamKey
from blockstore.format.identity import Identity
from blockstore.index.touches import MOST, Hashes, packed
from blockstore.lazy import once
from blockstore.scan.identities import hashes, identities


class Named:
    """Identities, in the order in which they are added; of one stream."""

    def __init__(self, identity: Identity, stream: StreamKey) -> None:
        self._identity = identity
        self.stream = stream
        self._columns: list[list[pa.Array]] = []

    def add(self, columns: list[pa.Array]) -> None:
        """Add rows by the columns that identify them."""
        self._columns.append(columns)

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(len(columns[0]) for columns in self._columns)

    @property
    def hashes(self) -> Hashes:
        """The hashes of all of them; asked for once all are added."""
        return self._all

    @once
    def _all(self) -> Hashes:
        found = [hashes(self._identity, self.stream, columns) for columns in self._columns]
        return np.concatenate(found) if found else np.zeros(0, np.uint64)

    @property
    def touched(self) -> bytes | None:
        """What an entry says of them."""
        return None if self.count > MOST else packed(self.hashes)

    def and_others(self, others: Named) -> Named:
        """These and others, of the same stream."""
        both = Named(self._identity, self.stream)
        both._columns = [*self._columns, *others._columns]
        return both

    def twice(self) -> tuple[tuple[pa.Scalar, ...], int] | None:
        """An identity that occurs more than once, and how often; None where none does."""
        if not self._columns:
            return None
        values = pa.chunked_array([identities(columns) for columns in self._columns])
        if len(pc.unique(values)) == len(values):
            return None
        counts = pc.value_counts(values)
        most = counts.filter(pc.greater(counts.field("counts"), 1))[0]
        # Arrow cannot look for a duration, but compares it.
        at = pc.index(pc.equal(values, most["values"]), True).as_py()
        rows = [pa.chunked_array(list(column)) for column in zip(*self._columns, strict=True)]
        return tuple(column[at] for column in rows), most["counts"].as_py()
