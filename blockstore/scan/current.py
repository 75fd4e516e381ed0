"""The current view: which rows of a plan's chunks are hidden by newer versions, by position.

Rules (design 8.3):
- The row of an identity with the highest ``_version`` counts. If it is a tombstone, none does.
- Only the rows of blocks of changes hide others. All of those of a snapshot take part, whatever the
  condition of a query is: a version that does not meet it still hides an older one that does.
- A chunk of which no row can be hidden, by the ranges of its versions and identities, is not read.
- Of a write of new rows, whose ids follow from the index, nothing is read either.
- Blocks are usually sorted by what identifies a row. The few identities that newer versions have
  are then searched for among the rows of a chunk, and not each row among them.
- Every reader leaves out the positions that are found here, and no other code decides what is
  current.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from blockstore.errors import Corrupt
from blockstore.format.block import StreamKey
from blockstore.format.identity import ROW_ID, VERSION, Identity
from blockstore.scan.chunk import Positions, ScanChunk
from blockstore.scan.hiders import identity_bounds
from blockstore.scan.identities import identities

Columns = Mapping[str, pa.Array]
"""Columns of all rows of a chunk, by name."""

ReadColumns = Callable[[Sequence[ScanChunk], Sequence[str]], Iterator[Columns]]
"""Reads columns of chunks, all their rows, one chunk after the other."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """The rows of a chunk that newer versions hide."""

    positions: Positions
    rows: npt.NDArray[np.int64]
    """The place of each one's identity among those of ``Newest``."""


@dataclass(frozen=True)
class Newest:
    """The newest version that blocks of changes hold of each identity of a stream."""

    values: pa.Array
    """The identities, each once, in no order."""
    versions: npt.NDArray[np.int64]
    deleted: npt.NDArray[np.bool_]
    low: int | str | None
    high: int | str | None
    """Bounds of the identities where they have an order that chunks have bounds of too."""

    @property
    def newest(self) -> int:
        """The highest version."""
        return int(self.versions.max(initial=0))

    @property
    def bytes(self) -> int:
        """The memory that it takes, with the order of the identities."""
        order = self.values.nbytes + self.versions.nbytes
        return int(self.values.nbytes + self.versions.nbytes + self.deleted.nbytes + order)

    def may_hide(self, chunk: ScanChunk, identity: Identity) -> bool:
        """Whether some row of a chunk may be hidden."""
        oldest = chunk.versions[0]
        if oldest is not None and self.newest <= oldest:
            return False
        low, high = identity_bounds(chunk, identity)
        return not (_is_below(self.high, low) or _is_below(high, self.low))  # both unknown: it may

    def hidden(self, values: pa.Array, versions: npt.NDArray[np.int64]) -> Hidden:
        """The rows with these identities and versions that are older than the newest one."""
        found = self._in_order(values)
        if found is None:
            places = pc.index_in(values, value_set=self.values)
            known = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
            rows = places.drop_null().to_numpy()
        else:
            known, rows = found
        older = self.versions[rows] > versions[known]
        return Hidden(known[older], rows[older])

    def hidden_each(
        self, chunks: Iterable[tuple[pa.Array, npt.NDArray[np.int64]]]
    ) -> Iterator[Hidden]:
        """The same of several chunks, in their order.

        Small ones are looked up together: each lookup begins by hashing all of the newest, unless
        the rows of the chunk are in order.
        """
        held: list[tuple[pa.Array, npt.NDArray[np.int64]]] = []
        rows = 0
        for chunk in chunks:
            if not held and _ascending(chunk[0]) is not None:
                yield self.hidden(*chunk)
                continue
            held.append(chunk)
            rows += len(chunk[0])
            if rows >= len(self.values):
                yield from self._hidden_together(held)
                held, rows = [], 0
        yield from self._hidden_together(held)

    def _hidden_together(
        self, chunks: Sequence[tuple[pa.Array, npt.NDArray[np.int64]]]
    ) -> Iterator[Hidden]:
        if not chunks:
            return
        values, versions = zip(*chunks, strict=True)
        found = self.hidden(pa.concat_arrays(values), np.concatenate(versions))
        ends = np.cumsum([len(one) for one in values])
        cuts = np.searchsorted(found.positions, ends[:-1])
        firsts = ends - [len(one) for one in values]
        for first, positions, places in zip(
            firsts, np.split(found.positions, cuts), np.split(found.rows, cuts), strict=True
        ):
            yield Hidden(positions - first, places)

    @cached_property
    def _sorted(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """The identities, which are integers, in their order, and the place of each."""
        values = self.values.to_numpy()
        places = np.argsort(values, kind="stable")
        return values[places], places

    def _in_order(
        self, values: pa.Array
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
        """Return which of ascending integers are among the identities, and the place of each one's;
        None where the values are none."""
        own = _ascending(values)
        if own is None or values.type != self.values.type or not len(own):
            return None
        found, places = self._sorted
        first, end = np.searchsorted(found, own[0]), np.searchsorted(found, own[-1], side="right")
        wanted, places = found[first:end], places[first:end]
        if len(wanted) < len(own):
            at = np.searchsorted(own, wanted)  # none is beyond the last
            hit = own[at] == wanted
            return at[hit], places[hit]
        at = np.searchsorted(wanted, own)
        at[at == len(wanted)] = 0
        known = np.flatnonzero(wanted[at] == own)
        return known, places[at[known]]

    def hidden_inserts(self, first: int, rows: int, version: int) -> Hidden:
        """The same of new rows, whose ids are consecutive."""
        ids = self.values.to_numpy()
        own = np.flatnonzero((ids >= first) & (ids < first + rows) & (self.versions > version))
        own = own[np.argsort(ids[own])]
        return Hidden(ids[own] - first, own)


def newest_among(
    values: pa.Array, versions: npt.NDArray[np.int64], deleted: npt.NDArray[np.bool_]
) -> tuple[Newest, npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Return the newest versions among rows of changes, which of the rows are hidden, and the place
    of each one's identity among the newest."""
    encoded = values.dictionary_encode()
    codes = encoded.indices.to_numpy()
    highest = np.zeros(len(encoded.dictionary), dtype=np.int64)
    np.maximum.at(highest, codes, versions)
    superseded = versions < highest[codes]
    gone = np.zeros(len(highest), dtype=bool)
    gone[codes[~superseded & deleted]] = True
    low, high = _bounds(encoded.dictionary)
    return Newest(encoded.dictionary, highest, gone, low, high), superseded | deleted, codes


def hidden_in(
    chunks: Sequence[ScanChunk],
    newest: Mapping[StreamKey, Newest],
    identity: Identity,
    read: ReadColumns,
) -> dict[str, Hidden]:
    """Return which rows of plain chunks are hidden by the newest versions of their streams, by the
    key of the chunk."""
    found: dict[str, Hidden] = {}
    to_read = []
    for chunk in chunks:
        if ROW_ID in identity.columns and chunk.first_row_id is not None:
            assert chunk.version is not None, "the index gives a write its ids and its version"
            found[chunk.key] = newest[chunk.stream].hidden_inserts(
                chunk.first_row_id, chunk.file.rows, chunk.version
            )
        else:
            to_read.append(chunk)
    for stream, some in groupby(to_read, key=lambda chunk: chunk.stream):
        own = list(some)
        rows = ((values, versions) for values, versions, _ in identified(own, identity, read))
        for chunk, hidden in zip(own, newest[stream].hidden_each(rows), strict=True):
            found[chunk.key] = hidden
    return found


def identified(
    chunks: Iterable[ScanChunk], identity: Identity, read: ReadColumns, also: Sequence[str] = ()
) -> Iterator[tuple[pa.Array, npt.NDArray[np.int64], Columns]]:
    """Yield the identities and the versions of the rows of each chunk, and its columns, with those
    of the names ``also``. Versions are read where the index does not give them. Raises Corrupt."""
    for stored, some in groupby(chunks, key=lambda chunk: chunk.version is None):
        own = list(some)
        names = (*identity.columns, *((VERSION,) if stored else ()), *also)
        for chunk, columns in zip(own, read(own, names), strict=True):
            values = identities(columns_of(columns, identity))
            if chunk.version is None:
                yield values, numbers([columns[VERSION]]), columns
            else:
                yield values, np.broadcast_to(np.int64(chunk.version), len(values)), columns


def with_hidden(
    chunks: Iterable[ScanChunk], hidden: Mapping[str, Positions]
) -> tuple[ScanChunk, ...]:
    """Return the chunks, each with the rows of it that are hidden; without those that are hidden
    completely."""
    shown = (
        replace(chunk, hidden=hidden[chunk.key]) if chunk.key in hidden else chunk
        for chunk in chunks
    )
    return tuple(chunk for chunk in shown if chunk.rows)


def columns_of(rows: Columns, identity: Identity) -> list[pa.Array]:
    """Return the columns that identify a row. Raises Corrupt for a row that has none."""
    columns = [rows[name] for name in identity.columns]
    for name, column in zip(identity.columns, columns, strict=True):
        if column.null_count:
            raise Corrupt(
                f"a row has no {name}, which identifies it: restore its block from a copy"
            )
    return columns


def numbers(columns: Iterable[pa.Array]) -> npt.NDArray[np.int64]:
    """Return columns of numbers, one after the other."""
    return np.concatenate([column.to_numpy(zero_copy_only=False) for column in columns])


def _ascending(values: pa.Array) -> npt.NDArray[Any] | None:
    """The values where they are integers, each greater than the one before."""
    if not pt.is_integer(values.type) or values.null_count:
        return None
    own = values.to_numpy()
    return own if bool(np.all(own[1:] > own[:-1])) else None


def _bounds(values: pa.Array) -> tuple[int | str | None, int | str | None]:
    kind = values.type
    if pt.is_temporal(kind):
        values = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not (pt.is_integer(kind) or pt.is_string(kind)):
        return None, None
    found = pc.min_max(values).as_py()
    return found["min"], found["max"]


def _is_below(value: int | str | None, other: int | str | None) -> bool:
    """Whether one bound is certainly below another."""
    if isinstance(value, int) and isinstance(other, int):
        return value < other
    return isinstance(value, str) and isinstance(other, str) and value < other
