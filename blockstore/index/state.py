"""The state of a table at one version: the fold of all entries up to it.

A state is a value: it never changes, shares what it can with its neighbors, and is the same for all
readers. Large parts (blocks, sources, commit ids) are persistent sets; a block's object is made on
first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import immutables

from blockstore.errors import Corrupt
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.format.features import UPLOADS
from blockstore.index.batches import Batches, is_forgotten
from blockstore.index.blocks import Blocks
from blockstore.index.chain import NO_LINK, Link
from blockstore.index.commit_ids import Commits
from blockstore.index.dropped import Dropped
from blockstore.index.entry import Epoch
from blockstore.index.sources import Sources
from blockstore.index.touches import Touches


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that a version says."""

    EMPTY: ClassVar[State]

    version: int = 0
    time_ms: int = 0
    blocks: Blocks = field(default_factory=Blocks.of)
    accounted: Sources = field(default_factory=Sources)
    commits: Commits = field(default_factory=Commits)
    epochs: Mapping[str, Epoch] = field(default_factory=dict)
    batches: Batches = field(default_factory=immutables.Map)
    tags: Mapping[str, int] = field(default_factory=dict)
    horizon: str | None = None
    floor: str | None = None
    next_row_id: int = 0
    table: Definition | None = None
    requires: tuple[str, ...] = ()
    last: Link = NO_LINK
    """The entry of this version, void or not, as the next one names it."""
    touches: Touches | None = field(default=None, compare=False)
    """Which rows the entries have touched from which this state was folded, where rows have an
    identity; None: any."""
    created: int = 1
    """The version in which the table was created: above 1 if another one was dropped before it."""
    first_row_id: int = 0
    """The next row id when it was created: those below were given to rows of tables before."""
    dropped: Dropped | None = None
    """When the table was dropped; None while it is there."""
    void: tuple[int, ...] = ()
    """The newest void entries, by id, oldest first: versions in which nothing happened."""

    @property
    def definition(self) -> Definition:
        """The table's definition. Raises Corrupt before the first entry, where there is none."""
        if self.table is None:
            raise Corrupt(f"version {self.version} has no definition, expected one from entry 1 on")
        return self.table

    @property
    def required_before(self) -> tuple[str, ...]:
        """The features that tables which were dropped before this one can have required."""
        return self.requires if self.created > 1 else ()

    @property
    def ends_void(self) -> bool:
        """Whether the entry of this version is void, so that it shows nothing of those below it: it
        may have been there before they were."""
        return self.void[-1:] == (self.version,)

    @property
    def root(self) -> int | None:
        """The version of the root by whose leaves the state is held; None where it is not."""
        return self.blocks.base.root_version

    @property
    def oldest_kept(self) -> int:
        """The version that the boundary must not pass while the state is used: its own, or that of
        the root that names its leaves."""
        return self.version if self.root is None else self.root

    @property
    def is_broken(self) -> bool:
        """Whether a leaf was missed or found damaged that its root names: it must be read again."""
        return self.blocks.base.is_broken

    def is_ahead_of(self, other: State) -> bool:
        """Whether it is of a later version, or of the same one on the leaves of a newer root: those
        of the older may be collected. And where the other's leaves were missed."""
        if self.version != other.version:
            return self.version > other.version
        if other.is_broken:
            return True
        return self.root is not None and (other.root is None or self.root > other.root)

    def committed(self, job: Job) -> bool:
        """Whether the job's batch is among those committed."""
        app = self.batches.get(job.app)
        return app is not None and job.batch in app

    def forgot(self, job: Job) -> bool:
        """Whether the job is an upload that this table has forgotten: it is no longer known whether
        it was committed."""
        return UPLOADS in self.requires and is_forgotten(job.app, self.floor)

    def below_horizon(self, ulid: str) -> bool:
        """Whether an ``index`` block of this ULID may be removed at any time (protocol 3.6)."""
        return self.horizon is not None and ulid <= self.horizon

    def below_floor(self, ulid: str) -> bool:
        """Whether a block or source of this ULID comes too late to be distinguished from one
        forgotten."""
        return self.floor is not None and ulid <= self.floor


State.EMPTY = State()
