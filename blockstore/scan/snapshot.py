"""A snapshot: an immutable set of blocks that together hold every visible write exactly once.

It is a value: two processes with the same snapshot read the same rows, whatever happens to the
table, until ``delete_delay`` after a newer version has replaced it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from blockstore.errors import BlockstoreError, Corrupt, HistoryReplaced, SnapshotExpired
from blockstore.format.definition import Definition
from blockstore.index.blocks import Blocks
from blockstore.index.chain import NO_LINK, Link
from blockstore.index.checkpoint_name import how_to_replace_checkpoint
from blockstore.index.rows import KEPT, LiveBlock, visible_rows
from blockstore.index.state import State
from blockstore.lazy import once
from blockstore.scan.columns import Columns

if TYPE_CHECKING:
    from blockstore.lifecycle.cover import ChosenBlock
    from blockstore.lifecycle.list_path import Listed

A = TypeVar("A")

_TRIES = 3
"""So often a version is read again whose leaves were missed."""

_FEW = 64
"""Reading this many blocks one by one is faster than loading Arrow's functions."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The blocks of one moment: the live ones of an index version, and those that only a listing
    shows."""

    definition: Definition
    version: int | None = None
    """The index's version; None for a table without an index."""
    last: Link = NO_LINK
    """The entry of that version, by which its history is known."""
    time_ms: int = 0
    blocks: Blocks = field(default_factory=Blocks.of)
    listed: tuple[ChosenBlock, ...] = ()
    malformed: Mapping[str, str] = field(default_factory=dict)
    """Blocks that were left out and may hold rows that no other block holds: ULID to the damage."""
    labels: frozenset[str] = frozenset()
    """Labels that the table has, whichever labels its blocks have."""

    @classmethod
    def of(cls, state: State, listed: Listed | None = None) -> Snapshot:
        """Return the snapshot of a state, with what the list path adds to it."""
        return cls(
            definition=state.definition,
            version=state.version,
            last=state.last,
            time_ms=state.time_ms,
            blocks=state.blocks,
            listed=() if listed is None else listed.cover.chosen,
            malformed={} if listed is None else listed.malformed,
            labels=frozenset(state.definition.labels),
        )

    @classmethod
    def of_listing(cls, definition: Definition, listed: Listed) -> Snapshot:
        """Return the snapshot of a table without an index."""
        from blockstore.lifecycle.schemas import renumbered

        return cls(
            definition=definition,
            time_ms=listed.now_ms,
            listed=renumbered(listed.cover.chosen, definition),
            malformed=listed.malformed,
            labels=listed.labels.union(definition.labels),
        )

    def __len__(self) -> int:
        return len(self.blocks) + len(self.listed)

    @once
    def label_names(self) -> frozenset[str]:
        """Every label that the table was made with or that some stream has."""
        streams = renewed(self, lambda one: one.blocks.streams())
        found = {name for stream in streams for name, _ in stream.labels}
        return self.labels.union(found, *(block.meta.labels for block in self.listed))

    @once
    def columns(self) -> Columns:
        """Every column that a scan could read."""
        return Columns.of(self.definition, self.label_names)

    @once
    def made(self) -> dict[str, Any]:
        """What plans keep here that they make of all blocks, whatever a condition is; by name, and
        of few blocks."""
        return {}

    def prepare(self) -> None:
        """Prepare the first plan over the snapshot: make its columns, and the objects of its blocks
        if they are few enough to be kept.

        For callers that have time before the first query. Raises Corrupt if a stored block cannot
        be read.
        """
        _ = self.columns
        if len(self.blocks) <= KEPT:
            self.blocks.take(range(len(self.blocks)))

    def live(self) -> Iterator[LiveBlock]:
        """Yield the blocks that the index names as objects: for output, not for plans."""
        return iter(self.blocks)

    def count(self) -> int | None:
        """Return the number of rows by metadata; None if the rows of some block must be read."""
        if any(block.only_sources is not None and block.meta.level > 1 for block in self.listed):
            return None
        by_block = len(self.blocks) <= _FEW or self.definition.identity is not None
        rows = visible_rows if by_block else _visible_rows
        visible = renewed(self, lambda one: rows(one.blocks))
        return None if visible is None else visible + sum(block.meta.rows for block in self.listed)


def renewed(snapshot: Snapshot, make: Callable[[Snapshot], A]) -> A:
    """What ``make`` returns of a snapshot; where leaves of it were collected since it was taken, of
    the same version read again."""
    if snapshot.blocks.base.root_version is None:
        return make(snapshot)
    tries = 0
    while True:
        try:
            return make(snapshot)
        except (SnapshotExpired, Corrupt) as error:
            snapshot = read_again(snapshot, error, tries)
            tries += 1


def read_again(snapshot: Snapshot, error: BlockstoreError, tries: int) -> Snapshot:
    """The same version on leaves that are there, by the handle that has missed one: it passes over
    roots that name it.

    Raises ``error`` where that is not for a leaf, or the snapshot is not all of a version; Corrupt
    where it was read again several times, ``tries``, and a leaf is missing all the same;
    VersionExpired; HistoryReplaced for another version under the same number.
    """
    from blockstore.index.history import History  # few tables have leaves
    from blockstore.index.read import IndexReader
    from blockstore.index.tree.blocks import LeafRows

    rows = snapshot.blocks.base
    if not isinstance(rows, LeafRows) or not (isinstance(error, SnapshotExpired) or rows.is_broken):
        raise error
    handle, url = rows.loader.handle, rows.loader.url
    if snapshot.version is None or not isinstance(handle, IndexReader):
        raise error
    if tries == _TRIES:
        raise Corrupt(f"{error}: {how_to_replace_checkpoint(url)}") from error
    state = History(handle, handle.cold().state).at(snapshot.version)
    if state.last != snapshot.last:
        raise HistoryReplaced(
            f"version {snapshot.version} of {url} is another one now than this snapshot was taken "
            "of: a copy was put back; open the table again"
        )
    if len(state.blocks) != len(snapshot.blocks):
        raise error
    return replace(snapshot, blocks=state.blocks)


@lru_cache(maxsize=4096)
def labels_of(stream: str) -> Mapping[str, str]:
    """The labels of a value of the index's column ``stream``."""
    found: dict[str, str] = orjson.loads(stream)["labels"]
    return found


def _visible_rows(blocks: Blocks) -> int | None:
    """Return the same as ``visible_rows``, by columns and sums: no block is made into an object."""
    import pyarrow.compute as pc

    rest, sums = blocks.summed(lambda leaf: leaf.excepted == 0)
    frame = rest.table()
    excepted = frame["excepted"].is_valid()
    if pc.any(pc.and_(excepted, pc.greater(frame["level"], 1))).as_py():
        return None
    shown = pc.sum(frame["rows"].filter(pc.invert(excepted))).as_py() or 0
    return shown + sum(leaf.rows for leaf in sums)
