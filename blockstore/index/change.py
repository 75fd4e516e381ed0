"""What an operation wants of the index, as a value; ``rules.py`` judges it and ``commit.py``
carries it out.

A ``Change`` lives through all attempts of one operation: it keeps its commit id, and makes a new
``Draft`` whenever the state has moved. ``draft`` is pure: it looks at the state and at what the
operation found out before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

from blockstore.errors import Conflict, Invalid
from blockstore.format.block import BlockMeta, Job
from blockstore.format.definition import Definition
from blockstore.format.features import DROP, TREE, UPLOADS
from blockstore.index.added import AddedBlock
from blockstore.index.entry import Entry, Epoch, Operation
from blockstore.index.state import State
from blockstore.names import is_ulid

COMPACTOR = "compactor"
"""The role that discovers, raises the watermarks and collects; its shards (``compactor/3``) only
merge."""


class Left(StrEnum):
    """Why a block of an append or discovery did not enter the entry."""

    ACCOUNTED = "accounted"
    """All its sources are accounted: its rows are in the table already."""
    DEFERRED = "deferred"
    """Visible by age and at or below the horizon: it is left to discovery."""
    QUARANTINED = "quarantined"
    """Some of its sources are accounted, or are below the floor, or its schema is unknown: a person
    decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What the entry says besides its id, time and commit id."""

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
    touched: bytes | None = None
    uncovers: bool = True
    """Whether older versions of rows may be uncovered by what it removes; False once the
    operation has judged that none is."""
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
    races_for: ClassVar[float] = 1.0
    """How many times the patience of a commit it goes on although others win every entry: more
    where no one waits for it, and much work would be lost."""

    @abstractmethod
    def draft(self, state: State) -> Draft | Done:
        """What to write on top of ``state``. Pure. Raises Conflict or Invalid."""


def nothing(change: Change) -> Draft | Done:
    """What to write of an operation that has nothing left to do: with a job an entry, so that it
    does nothing later either."""
    return Done() if change.job is None else Draft(message="there was nothing to do")


@dataclass(kw_only=True)
class Nothing(Change):
    """An operation of a job that has found nothing to do."""

    operation: Operation
    commit: str
    job: Job | None = None
    ordered: bool = True
    parameters: Mapping[str, object] = field(default_factory=dict)

    def draft(self, state: State) -> Draft | Done:
        found = nothing(self)
        return found if isinstance(found, Done) else replace(found, parameters=self.parameters)


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
        """Whether it may share an entry with others."""
        return not (self.job or self.role or self.parameters or self.message)


@dataclass(kw_only=True)
class Create(Change):
    """The first entry of a table, or the one that follows on a table that was dropped."""

    operation: Operation = Operation.CREATE
    commit: str
    definition: Definition
    job: Job | None = None

    def draft(self, state: State) -> Draft | Done:
        if not state.version:
            return Draft(table=self.definition, requires=self.definition.requires)
        if state.dropped is None:
            raise Conflict(
                f"the table already exists, at version {state.version}: open it, or choose "
                "another URL"
            )
        return Draft(
            table=self.definition.following(state.definition),
            remove=tuple(state.blocks.ulids()),
            tags=dict.fromkeys(sorted(state.tags)),
            requires=tuple(sorted({DROP, *self.definition.requires})),
        )


@dataclass(kw_only=True)
class ClaimEpoch(Change):
    """Take a role that must be single (protocol 3.7); the process that held it before is fenced."""

    operation: Operation = Operation.EPOCH
    commit: str
    claims: str
    """The role."""

    def draft(self, state: State) -> Draft:
        number, _ = state.epochs.get(self.claims, (0, ""))
        return Draft(epochs={self.claims: (number + 1, self.commit)})


@dataclass(kw_only=True)
class Discover(Change):
    """Publish blocks that a listing showed, ``blocks`` in the order of the cover; each counts as
    accounted for the next. What is accounted already, comes too late or has an unknown schema stays
    out, and the result says so."""

    operation: Operation = Operation.DISCOVER
    commit: str
    epoch: Epoch
    """The compactor's claim: it alone verifies and removes (protocol 3.6)."""
    blocks: tuple[BlockMeta, ...]
    role: str | None = COMPACTOR
    message: str = ""

    def __post_init__(self) -> None:
        _check_compactor(self)

    def draft(self, state: State) -> Draft:
        return Draft(add=tuple(AddedBlock(meta=meta) for meta in self.blocks), message=self.message)


@dataclass(kw_only=True)
class RaiseWatermarks(Change):
    """Raise the horizon, the floor, or both; what has risen as far already stays where it is.

    The caller keeps the horizon at or below the store's now - ``partial_delay``. A floor needs an
    entry that raised the horizon to it before this one: ``keep`` lists the accounted sources at or
    below the floor that a complete listing, made after that entry, still shows (protocol 3.6).
    """

    operation: Operation = Operation.HORIZON
    commit: str
    epoch: Epoch
    role: str | None = COMPACTOR
    horizon: str | None = None
    floor: str | None = None
    keep: tuple[str, ...] = ()
    message: str = ""

    def __post_init__(self) -> None:
        _check_compactor(self)
        for name, value in (("horizon", self.horizon), ("floor", self.floor)):
            if value is not None and not is_ulid(value):
                raise Invalid(f"the {name} is {value!r}, expected a ULID")
        if self.keep and self.floor is None:
            raise Invalid(
                f"keep names {len(self.keep)} sources without a floor, and only a floor drops any"
            )

    def draft(self, state: State) -> Draft | Done:
        horizon = _above(self.horizon, state.horizon)
        floor = _above(self.floor, state.floor)
        if horizon is None and floor is None:
            return Done()
        if floor is not None and not state.below_horizon(floor):
            raise Invalid(
                f"the floor {floor} is above the horizon {state.horizon} of version "
                f"{state.version}, expected an earlier entry that raised the horizon to it: "
                "raise that first, and list again"
            )
        if floor is None:
            return Draft(horizon=horizon, message=self.message)
        requires = () if UPLOADS in state.requires else (UPLOADS,)
        return Draft(
            horizon=horizon, floor=floor, keep=self.keep, requires=requires, message=self.message
        )


@dataclass(kw_only=True)
class Expire(Change):
    """Remove blocks, each live with the exceptions under which it was read, and say why."""

    operation: Operation = Operation.EXPIRE
    commit: str
    read: Mapping[str, frozenset[str]]
    """The blocks to remove, and the exceptions that each had."""
    reason: str
    details: str = ""
    read_version: int | None = None
    role: str | None = None
    epoch: Epoch | None = None
    message: str = ""

    def draft(self, state: State) -> Draft:
        parameters = {"reason": self.reason, **({"details": self.details} if self.details else {})}
        return Draft(
            remove=tuple(sorted(self.read)),
            read=self.read,
            read_version=self.read_version,
            parameters=parameters,
            message=self.message,
        )


@dataclass(kw_only=True)
class Tag(Change):
    """Set a tag on a version; nothing to do where it is set already."""

    operation: Operation = Operation.TAG
    commit: str
    name: str
    version: int
    message: str = ""
    job: Job | None = None

    def draft(self, state: State) -> Draft | Done:
        if state.tags.get(self.name) == self.version:
            return nothing(self)
        return Draft(tags={self.name: self.version}, message=self.message)


@dataclass(kw_only=True)
class Untag(Change):
    """Remove a tag; with a ``version`` only if it is set on that one."""

    operation: Operation = Operation.UNTAG
    commit: str
    name: str
    version: int | None = None
    message: str = ""
    job: Job | None = None

    def draft(self, state: State) -> Draft | Done:
        held = state.tags.get(self.name)
        if held is None or self.version not in (None, held):
            return nothing(self)
        return Draft(tags={self.name: None}, message=self.message)


@dataclass(kw_only=True)
class MoveToTree(Change):
    """From this entry on checkpoints are roots (``tree/``): an older release refuses the table by
    name. Nothing to do where that is so already."""

    operation: Operation = Operation.TREE
    commit: str
    message: str = ""

    def draft(self, state: State) -> Draft | Done:
        if TREE in state.requires:
            return Done()
        return Draft(requires=(TREE,), message=self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What a commit returns."""

    version: int | None
    """The entry that holds the operation;

    None if nothing of it needed one, or it is no longer known.
    """
    entry: Entry | None = None
    """The entry, if this call wrote it."""
    added: tuple[BlockMeta, ...] = ()
    """The operation's blocks that are in the index, as far as they are live."""
    already: bool = False
    """Whether it was done before this call."""
    left: Mapping[str, Left] = field(default_factory=dict)
    """Blocks that did not enter the index by this operation, and why."""


def _check_compactor(change: Change) -> None:
    if change.role != COMPACTOR or change.epoch is None:
        raise Invalid(
            f"{change.operation} was requested by role {change.role!r} with epoch "
            f"{change.epoch!r}, expected {COMPACTOR!r} and its claim: claim the role first"
        )


def _above(wanted: str | None, held: str | None) -> str | None:
    """``wanted``, if it rises above what is held."""
    return wanted if wanted is not None and (held is None or wanted > held) else None
