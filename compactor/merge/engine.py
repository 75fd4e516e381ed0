"""The interface between the compactor and its merge engines: what a merge gets and what it returns.

An engine turns the chunks of several blocks into the chunks of one, and does nothing else: it
writes no meta.json, commits nothing and removes nothing. ``LocalEngine`` is one; Spark's is loaded
by name.

Rules for every engine:
- The rows of the result are those of the inputs, without those of excepted sources, each with its
  ``_source``, under the definition's schema, in the stable order of the sort key: by key, then by
  the input's place, its chunk's place and the row's place. Without a sort key, in the order of
  places alone.
- Where rows have an identity, rows of the result say which version of which row they are
  (``versions.py``), and rows that an input names are left out.
- Rows in = rows out + rows dropped, counted while reading and writing; a difference ends the merge.
- Every input chunk is checked against its size and SHA-256 before the merge succeeds; in a merge
  within a range of keys, the segments that are read against theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from blockstore.bucket.api import Bucket
from blockstore.compactor.merge.ranges import KeyRange
from blockstore.compactor.merge.versions import Positions
from blockstore.errors import BlockstoreError, Corrupt
from blockstore.format.block import BlockKind, BlockMeta
from blockstore.format.definition import Definition
from blockstore.format.new_block import WrittenChunks
from blockstore.world import World

Progress = Callable[[float], None]
"""Is called with the share of the merges that has ended, from 0 to 1, when it grows; from any
thread."""


def no_progress(_: float) -> None:
    """A ``Progress`` that does nothing."""


class DamagedInput(Corrupt):
    """The chunks of an input block do not match its meta.json; ``ulid`` is the block."""

    def __init__(self, ulid: str, message: str) -> None:
        super().__init__(message)
        self.ulid = ulid


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeInput:
    """A block to merge, the sources whose rows are excepted, and the only sources it is read
    for."""

    meta: BlockMeta
    excepted: frozenset[str] = frozenset()
    only: frozenset[str] | None = None
    """If blocks overlap: the sources that no other block accounts for, and the only ones that the
    merge takes from it."""
    version: int | None = None
    first_row_id: int | None = None
    """What the index says of a block of level 1."""
    left_out: Mapping[str, Positions] = field(default_factory=dict, compare=False)
    """Rows that are left out, by the path of their chunk."""

    @property
    def sources(self) -> frozenset[str]:
        """The sources that the merge takes from this block."""
        return frozenset(self.meta.sources) if self.only is None else self.only

    @property
    def dropped(self) -> frozenset[str]:
        """The sources whose rows are read and left out."""
        return self.excepted | (frozenset(self.meta.sources) - self.sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """One merge: at least one input, all of one stream, and the ULID to write the chunks under."""

    ulid: str
    inputs: tuple[MergeInput, ...]
    definition: Definition
    within: KeyRange | None = None
    """The only rows to merge: one part of a merge that several workers do. None = all."""
    kind: BlockKind = BlockKind.PLAIN
    """What the result is, where rows have an identity."""
    former: bool = False
    """Whether to take exactly the rows that are left out: a block of history, with a source of its
    own."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that the result accounts for: the union of what it takes, excepted ones
        included."""
        if self.former:
            return (self.ulid,)
        return tuple(sorted({source for item in self.inputs for source in item.sources}))

    @property
    def met(self) -> tuple[str, ...]:
        """Every source that a row of an input may have; of a block of history its own."""
        if self.former:
            return (self.ulid,)
        return tuple(sorted({source for item in self.inputs for source in item.meta.sources}))


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """The bounds of one merge."""

    memory_bytes: int = 1 << 30
    chunk_bytes: int = 256 << 20
    lanes: int = 2
    """How many threads read, sort and encode, at least 1; one at a time encodes."""
    work_dir: Path
    """Where a merge may create a directory of its own for what does not fit into memory."""
    one_attempt: bool = True
    """False if another attempt at the same block may be running: then no two attempts write the
    same object or directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The chunks that a merge wrote, all counted and hashed."""

    written: WrittenChunks
    dropped_rows: int
    notes: tuple[str, ...] = ()
    """Notes for a person, one sentence each, such as an input that was not sorted."""


class MergeEngine(Protocol):
    """Merges chunks."""

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        """Write the chunks of the result below ``task.ulid``.

        Raises DamagedInput, NoSpace, or what the bucket raises. What was written by then is debris
        that readers never see.
        """
        ...


@runtime_checkable
class BatchEngine(MergeEngine, Protocol):
    """An engine that does the merges of a complete pass at once, usually on other machines."""

    def merge_all(
        self,
        bucket: Bucket,
        world: World,
        tasks: Sequence[MergeTask],
        options: MergeOptions,
        progress: Progress = no_progress,
    ) -> Iterator[tuple[int, Merged | BlockstoreError]]:
        """For each merge, as it ends: its place in ``tasks``, and its result or the error that
        ended it. An engine that knows its progress before that reports it."""
        ...
