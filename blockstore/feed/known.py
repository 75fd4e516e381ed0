"""What is known of the rows that a run of versions touches: whether each is there, and where.

Rules:
- Of two versions of a row the higher one counts, as everywhere (``scan/current.py``).
- Each identity of a stream is held once, with its newest version so far: 21 bytes and the identity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.feed.form import Kind, Kinds

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Gone:
    """Rows as they were before a change: where each of them is."""

    chunks: Numbers
    """By their numbers among all that the run reads."""
    positions: Numbers
    kinds: Kinds
    values: pa.Array
    """Their identities."""

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, slots=True)
class Judged:
    """What the rows of a chunk of changes do."""

    silent: Numbers
    """Positions of tombstones: they are no rows."""
    kinds: Kinds
    """Of all other rows, in their order."""
    gone: Gone


class Known:
    """The rows of one stream that a run of versions touches."""

    def __init__(self, values: pa.Array) -> None:
        """``values`` are their identities, each once."""
        self.values = values
        count = len(values)
        self._versions = np.zeros(count, np.int64)
        self._there = np.zeros(count, bool)
        self._chunks = np.zeros(count, np.int32)
        self._positions = np.zeros(count, np.int64)

    def see(self, chunk: int, values: pa.Array, versions: Numbers, deleted: Mask) -> None:
        """Take in the rows of a chunk, in their order: former versions of some of them."""
        places = pc.index_in(values, value_set=self.values)
        positions = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
        self._note(
            places.drop_null().to_numpy(), chunk, positions, versions[positions], deleted[positions]
        )

    def see_new(self, chunk: int, first: int, rows: int, version: int) -> None:
        """Take in new rows, whose ids are consecutive."""
        ids = self.values.to_numpy()
        places = np.flatnonzero((ids >= first) & (ids < first + rows))
        count = len(places)
        self._note(
            places,
            chunk,
            ids[places] - first,
            np.full(count, version, np.int64),
            np.zeros(count, bool),
        )

    def judge(
        self, chunk: int, values: pa.Array, version: int, deleted: Mask, *, images: bool
    ) -> Judged:
        """Return what a chunk of changes does, and take it in; with ``images`` the rows that it
        updates are among those that are gone, and those that it deletes always."""
        places = pc.index_in(values, value_set=self.values).to_numpy()
        was = self._there[places]
        kinds = np.where(was[~deleted], np.int8(Kind.UPDATE), np.int8(Kind.INSERT))
        given = places[was & (deleted if not images else np.ones(len(was), bool))]
        is_deleted = deleted[was & (deleted if not images else np.ones(len(was), bool))]
        gone = Gone(
            self._chunks[given].astype(np.int64),
            self._positions[given],
            np.where(is_deleted, np.int8(Kind.DELETE), np.int8(Kind.UPDATE_BEFORE)),
            self.values.take(pa.array(given)),
        )
        count = len(places)
        self._note(places, chunk, np.arange(count), np.full(count, version, np.int64), deleted)
        return Judged(np.flatnonzero(deleted), kinds, gone)

    def _note(
        self, places: Numbers, chunk: int, positions: Numbers, versions: Numbers, deleted: Mask
    ) -> None:
        newer = versions > self._versions[places]
        at = places[newer]
        self._versions[at] = versions[newer]
        self._there[at] = ~deleted[newer]
        self._chunks[at] = chunk
        self._positions[at] = positions[newer]
