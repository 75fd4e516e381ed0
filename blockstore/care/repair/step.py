"""The values of a repair: what was requested, and its steps. A plan is data; ``run.py`` carries it
out."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from blockstore.bucket.api import ReadBucket
from blockstore.care.repair.copies import GoodFiles
from blockstore.care.repair.put_back import PutBack
from blockstore.care.repair.segments import LostSegments
from blockstore.care.repair.stale import StaleEntry
from blockstore.errors import Invalid
from blockstore.index.state import State
from blockstore.names import is_ulid


class StepKind(StrEnum):
    """What a step does."""

    CHECKPOINT = "checkpoint"
    """Write a checkpoint again, from the entries."""
    LEAF = "leaf"
    """Write a lost leaf of checkpoints again, from another copy of its content."""
    REWRITE = "rewrite"
    """Replace a live block by a copy of its good rows: one index entry."""
    UPLOAD = "upload"
    """Upload the good rows of a block that no entry names, under a new name."""
    ADOPT = "adopt"
    """Accept a block that came too late, as a new write."""
    PUT_BACK = "put back"
    """Restore lost objects, from the replica, of a block that only a tag or old version names."""
    SEGMENTS = "segments"
    """Store the hashes of a block's segments again, made from its checked chunks."""
    STALE = "remove"
    """Remove an index entry above a gap, left by a writer of a replaced history."""
    UNMARK = "unmark"
    """Remove the quarantine's mark from an intact block."""
    RAISE = "raise"
    """Upload an earlier repair again, because the cover does not choose it."""
    PERSON = "person"
    """Nothing: a person must act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOptions:
    """The options of a repair.

    Attributes:
        blocks: blocks to check byte by byte and to repair.
        adopt: late blocks whose rows become new writes.
        replica: where good bytes are copied from.
        drop_damaged: whether rows of lost files are given up.
        deep: whether every file is read to find damaged blocks.
        stale_entry: an index entry above a gap, to be removed; nothing else is checked.
    """

    blocks: tuple[str, ...] = ()
    adopt: tuple[str, ...] = ()
    replica: ReadBucket | None = None
    drop_damaged: bool = False
    deep: bool = False
    stale_entry: int | None = None

    def __post_init__(self) -> None:
        for ulid in (*self.blocks, *self.adopt):
            if not is_ulid(ulid):
                raise Invalid(
                    f"{ulid[:60]!r} is not a block name, expected a ULID such as "
                    "01JD0000000000000000000000"
                )

    @property
    def named(self) -> bool:
        """Whether blocks were named: then nothing else is checked."""
        return bool(self.blocks or self.adopt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a repair."""

    kind: StepKind
    object: str
    what: str
    rows_lost: int = 0
    version: int | None = None
    """For a checkpoint: its version."""
    state: State | None = field(default=None, repr=False, compare=False)
    """For a checkpoint: the state that it should contain, by the entries."""
    files: GoodFiles | None = field(default=None, repr=False, compare=False)
    """For a block: its good bytes."""
    stale: StaleEntry | None = field(default=None, repr=False, compare=False)
    """For an index entry: its content."""
    put_back: PutBack | None = field(default=None, repr=False, compare=False)
    """For a block that only a tag or an older version names: what is missing."""

    segments: LostSegments | None = field(default=None, repr=False, compare=False)
    """For a block that lacks the hashes of its segments."""

    copies: tuple[ReadBucket, ...] = field(default=(), repr=False, compare=False)
    """For a leaf: where else its content may be."""

    @property
    def acts(self) -> bool:
        """Whether it changes anything."""
        return self.kind is not StepKind.PERSON


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """The steps of a repair, in order."""

    url: str
    steps: tuple[Step, ...] = ()

    @property
    def acts(self) -> bool:
        """Whether any step changes something."""
        return any(step.acts for step in self.steps)

    @property
    def rows_lost(self) -> int:
        """The rows that would be lost."""
        return sum(step.rows_lost for step in self.steps)
