"""What an operation wants of the index, as a value; ``rules.py`` judges it and ``commit.py`` carries it out.

A ``Change`` lives through all attempts of one operation: it keeps its commit id, and is asked for a ``Draft`` anew
whenever the state has moved. ``draft`` is pure: it looks at the state and at what the operation found out before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from blockstore.errors import Conflict
from blockstore.format.block import BlockMeta, Job
from blockstore.format.definition import Definition
from blockstore.index.added import AddedBlock
from blockstore.index.entry import Entry, Epoch, Operation
from blockstore.index.state import State

__all__ = ["Append", "Change", "ClaimEpoch", "Committed", "Create", "Done", "Draft", "Left"]


class Left(StrEnum):
    """Why a block of an append or discovery did not enter the entry."""

    ACCOUNTED = "accounted"
    """All its sources are accounted: its rows are in the table already."""
    DEFERRED = "deferred"
    """Visible by age and at or below the horizon: it is left to discovery."""
    QUARANTINED = "quarantined"
    """Some of its sources are accounted, or lie below the floor, or its schema is unknown: a person decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What the entry shall say besides its id, time and commit id."""

    add: tuple[AddedBlock, ...] = ()
    remove: tuple[str, ...] = ()
    excepts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    account: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    read: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Blocks whose rows the operation has read, and the exceptions under which it did."""
    read_version: int | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    message: str = ""
    table: Definition | None = None
    tags: Mapping[str, int | None] = field(default_factory=dict)
    epochs: Mapping[str, Epoch] = field(default_factory=dict)
    horizon: str | None = None
    floor: str | None = None
    requires: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Nothing is to be written: the operation is in the index, or nothing of it is left to do."""

    version: int | None = None
    """The entry that did it, where it is known."""
    blocks: tuple[str, ...] = ()
    """The blocks that it wrote, where they are known."""
    left: Mapping[str, Left] = field(default_factory=dict)


class Change(ABC):
    """One operation. ``commit`` is its commit id, drawn once."""

    operation: Operation
    commit: str
    role: str | None = None
    epoch: Epoch | None = None
    """The claim that the operation holds of its role; it is fenced when the state names another."""
    job: Job | None = None
    ordered: bool = True
    """False lets a job commit a lower batch than the last (a backfill)."""

    @abstractmethod
    def draft(self, state: State) -> Draft | Done:
        """What to write on top of ``state``. Pure. Raises Conflict or Invalid."""


@dataclass(kw_only=True)
class Append(Change):
    """Publish level-1 blocks. Without a job, concurrent appends of one handle share an entry."""

    operation: Operation = Operation.APPEND
    commit: str
    blocks: tuple[BlockMeta, ...]
    job: Job | None = None
    ordered: bool = True
    role: str | None = None
    epoch: Epoch | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    message: str = ""

    def draft(self, state: State) -> Draft:
        return Draft(
            add=tuple(AddedBlock(meta=meta) for meta in self.blocks),
            parameters=self.parameters,
            message=self.message,
        )

    @property
    def shareable(self) -> bool:
        """Whether it may stand in one entry with others."""
        return not (self.job or self.role or self.parameters or self.message)


@dataclass(kw_only=True)
class Create(Change):
    """The first entry of a table."""

    operation: Operation = Operation.CREATE
    commit: str
    definition: Definition

    def draft(self, state: State) -> Draft | Done:
        if state.version:
            raise Conflict(
                f"the table exists already, at version {state.version}: open it, or choose another URL"
            )
        return Draft(table=self.definition)


@dataclass(kw_only=True)
class ClaimEpoch(Change):
    """Take a role that must be single (protocol 3.7); whoever held it before is fenced."""

    operation: Operation = Operation.EPOCH
    commit: str
    claims: str
    """The role."""

    def draft(self, state: State) -> Draft:
        number, _ = state.epochs.get(self.claims, (0, ""))
        return Draft(epochs={self.claims: (number + 1, self.commit)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What a commit answers."""

    version: int | None
    """The entry that holds the operation; None if nothing of it needed one, or it is not known any more."""
    entry: Entry | None = None
    """The entry, if this call wrote it."""
    added: tuple[BlockMeta, ...] = ()
    """The operation's blocks that are in the index, as far as they are live."""
    already: bool = False
    """Whether it was done before this call."""
    left: Mapping[str, Left] = field(default_factory=dict)
    """Blocks that did not enter the index by this operation, and why."""
