"""What was found of hidden rows, kept between queries: a second query reads no identity again.

Rules:
- It is never an authority. What is kept is named by all that it follows from: what identifies a
  row, and of each chunk the hash of its file and the version and the row ids that the index gives
  its rows. Blocks never change, so nothing here is ever stale.
- More changes hide more: a chunk of which all rows are hidden stays so while the changes that hide
  them are there, and the newest versions of some changes are where those of more begin.
- The columns by which rows are known are kept of small chunks: of a table that is changed often,
  these are read at each query for what is new.
- It is bounded in bytes, and safe to share between threads and tables.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from blockstore.format.identity import Identity
from blockstore.scan.chunk import Positions, ScanChunk
from blockstore.scan.fetch.bounded import Bounded

if TYPE_CHECKING:
    from blockstore.scan.current import Newest

LIMIT_BYTES = 64 << 20
_ENTRY_BYTES = 256
"""What an entry takes beside its arrays."""

_MOST_COLUMN_BYTES = 512 * 1024
"""Columns of more are not kept: a few large chunks would displace all else."""

_COLUMNS = 8
"""The share of the columns, as a divisor: they never displace what was found of them."""

_HIDDEN, _SOME = "hidden", "some"

Name = Hashable
"""It stands for chunks of changes and what identifies their rows."""


class HiddenCache:
    """One for all queries of a handle or of an engine."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._columns: Bounded[Hashable, pa.Array] = Bounded(limit_bytes // _COLUMNS)
        self._held: Bounded[Hashable, Any] = Bounded(limit_bytes - limit_bytes // _COLUMNS)

    @property
    def bytes(self) -> int:
        """The memory that is used."""
        return self._held.weight + self._columns.weight

    def name_of(self, identity: Identity, changes: Sequence[ScanChunk]) -> Name:
        """Return a name for these chunks of changes, as short as one can be found again."""
        complete = identity, tuple(map(_content, changes))
        short = self._held.get(complete)
        if short is None:
            short = object()
            self._held.put(complete, short, _ENTRY_BYTES * (1 + len(changes)))
        return cast("Name", short)

    def positions(self, changes: Name, chunk: ScanChunk) -> Positions | None:
        """Return which rows of a chunk are hidden with these changes; None if that is not known."""
        return cast("Positions | None", self._held.get((changes, _content(chunk))))

    def keep_positions(self, changes: Name, chunk: ScanChunk, positions: Positions) -> None:
        """Keep which rows of a chunk are hidden with these changes."""
        self._held.put((changes, _content(chunk)), positions, positions.nbytes + _ENTRY_BYTES)

    def is_hidden(self, identity: Identity, chunk: ScanChunk, present: Set[Hashable]) -> bool:
        """Whether it is known that all rows of a chunk are hidden, by changes that are among the
        ``present`` ones (``contents``)."""
        by = cast("Set[Hashable] | None", self._held.get((_HIDDEN, identity, _content(chunk))))
        return by is not None and by <= present

    def keep_hidden(
        self, identity: Identity, chunk: ScanChunk, changes: Sequence[ScanChunk]
    ) -> None:
        """Keep that these changes hide all rows of a chunk."""
        weight = _ENTRY_BYTES * (1 + len(changes))
        self._held.put((_HIDDEN, identity, _content(chunk)), contents(changes), weight)

    def newest_of_some(
        self, identity: Identity, changes: Sequence[ScanChunk]
    ) -> tuple[Newest | None, Set[Hashable]]:
        """Return the newest versions that some of these changes hold, and which (``contents``)."""
        found = self._held.get((_SOME, identity, _content(changes[0])))
        if found is not None:
            some, name = cast("tuple[Set[Hashable], Name]", found)
            newest = self.newest(name)
            if newest is not None and some <= contents(changes):
                return newest, some
        return None, frozenset()

    def newest(self, changes: Name) -> Newest | None:
        """Return the newest versions that these changes hold; None if they are not known."""
        return cast("Newest | None", self._held.get((changes, None)))

    def keep_newest(self, identity: Identity, changes: Sequence[ScanChunk], newest: Newest) -> None:
        """Keep the newest versions that these changes hold."""
        name = self.name_of(identity, changes)
        self._held.put((name, None), newest, newest.bytes + _ENTRY_BYTES)
        weight = _ENTRY_BYTES * (1 + len(changes))
        self._held.put((_SOME, identity, _content(changes[0])), (contents(changes), name), weight)

    def columns(self, chunk: ScanChunk, stored: Mapping[str, str]) -> dict[str, pa.Array] | None:
        """Return columns of a chunk, of which it stores each under the name of ``stored``; None
        unless all of them are kept."""
        found: dict[str, pa.Array] = {}
        for name, own in stored.items():
            column = self._columns.get((_content(chunk), own))
            if column is None:
                return None
            found[name] = column
        return found

    def keep_columns(
        self, chunk: ScanChunk, stored: Mapping[str, str], columns: Mapping[str, pa.Array]
    ) -> None:
        """Keep columns of a chunk, small ones."""
        for name, own in stored.items():
            # Of a slice, all that it was cut from stays in memory.
            size = columns[name].get_total_buffer_size()
            if size <= _MOST_COLUMN_BYTES:
                key = _content(chunk), own
                self._columns.put(key, columns[name], size + _ENTRY_BYTES)


def contents(changes: Sequence[ScanChunk]) -> Set[Hashable]:
    """What is kept of chunks is named by this of each."""
    return frozenset(map(_content, changes))


def is_of(chunk: ScanChunk, some: Set[Hashable]) -> bool:
    """Whether a chunk is among those with these ``contents``."""
    return _content(chunk) in some


def _content(chunk: ScanChunk) -> Hashable:
    """All that the identities and the versions of its rows follow from."""
    return chunk.file.sha256, chunk.version, chunk.first_row_id
