"""What a rule says of one directory: it may go, it stays, or it is quarantined; always with one
clause of why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from blockstore.format.marks import MarkReason
from blockstore.lifecycle.listing import Found

READABLE = "marked malformed, and it can be read: withdraw the mark, or mark it manual"
"""Why a block stays that was marked as malformed by mistake."""


class Ruling(StrEnum):
    """What is to become of a directory."""

    GOES = "goes"
    STAYS = "stays"
    QUARANTINED = "quarantined"
    """It contradicts itself: shown and counted, and never deleted by itself (R4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """A ruling and its reason."""

    ruling: Ruling
    why: str
    reason: MarkReason = MarkReason.SUPERSEDED
    """The reason under which the compactor marks what goes."""
    superseded_by: str | None = None

    @property
    def goes(self) -> bool:
        """Whether it may be marked, and once the mark is due removed."""
        return self.ruling is Ruling.GOES


class Rule(Protocol):
    """How a table's directories are judged: by its index (``by_index.py``) or by the cover
    (``by_cover.py``)."""

    def to_mark(self, one: Found) -> Fate:
        """Whether the compactor may mark a directory that has no deletion mark (R4, R6)."""
        ...

    def to_remove(self, one: Found) -> Fate:
        """Whether a directory whose deletion mark is due may be removed, decided afresh (R8)."""
        ...


def goes(
    why: str, reason: MarkReason = MarkReason.SUPERSEDED, superseded_by: str | None = None
) -> Fate:
    """It may go."""
    return Fate(ruling=Ruling.GOES, why=why, reason=reason, superseded_by=superseded_by)


def stays(why: str) -> Fate:
    """It stays."""
    return Fate(ruling=Ruling.STAYS, why=why)


def quarantined(why: str) -> Fate:
    """A person decides."""
    return Fate(ruling=Ruling.QUARANTINED, why=why)
