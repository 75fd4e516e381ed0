"""The report of a cleaning pass: what it published, marked, withdrew and removed, and why it left
the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from blockstore.compactor.clean.files import FilesCleaned
from blockstore.errors import AccessDenied
from blockstore.lifecycle.decide import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningReport:
    """One pass over one table. Every mapping is ULID to one clause."""

    url: str
    version: int | None = None
    """The index version of the decisions; None for a table without an index."""
    dry_run: bool = False
    """Nothing was changed: all of this is what would be done."""
    discovered: tuple[str, ...] = ()
    horizon: str | None = None
    """The new horizon; None if it was not raised. Likewise the floor."""
    floor: str | None = None
    marked: tuple[Decision, ...] = ()
    withdrawn: tuple[Decision, ...] = ()
    removed: tuple[Decision, ...] = ()
    objects: int = 0
    bytes: int = 0
    """Objects and bytes removed."""
    quarantined: Mapping[str, str] = field(default_factory=dict)
    """Malformed, or refused by the index: a person decides."""
    refused: frozenset[str] = frozenset()
    """Those of them that are complete, and that the index refused."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Not live, but a version or a tag names it."""
    kept_bytes: int = 0
    waiting: Mapping[str, str] = field(default_factory=dict)
    """Its mark is due, but it stays for now."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Decided but not carried out: the next pass decides again."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """The store's error for a block that could not be marked, withdrawn or removed."""
    files: FilesCleaned = field(default_factory=FilesCleaned)
    """What was done with files that cells name."""
    due_s: float | None = None
    """In how many seconds a pass has something to do though nothing changes; see ``due.py``."""
    denied: AccessDenied | None = None
    """The first of them for lack of rights: a person must grant them."""

    @property
    def changed(self) -> bool:
        """Whether anything was done."""
        return bool(
            self.discovered
            or self.horizon
            or self.floor
            or self.marked
            or self.withdrawn
            or self.removed
            or self.files.marked
            or self.files.withdrawn
            or self.files.removed
        )

    def to_json(self) -> dict[str, object]:
        """The report for machines."""
        return {
            "table": self.url,
            "version": self.version,
            "dry_run": self.dry_run,
            "discovered": list(self.discovered),
            "horizon": self.horizon,
            "floor": self.floor,
            "marked": [_decision(one) for one in self.marked],
            "withdrawn": [_decision(one) for one in self.withdrawn],
            "removed": [_decision(one) for one in self.removed],
            "objects": self.objects,
            "bytes": self.bytes,
            "quarantined": dict(self.quarantined),
            "kept": dict(self.kept),
            "kept_bytes": self.kept_bytes,
            "waiting": dict(self.waiting),
            "dropped": dict(self.dropped),
            "failed": dict(self.failed),
            "files": self.files.to_json(),
        }


def _decision(one: Decision) -> dict[str, object]:
    return {
        "ulid": one.ulid,
        "reason": one.reason.value,
        "why": one.why,
        "superseded_by": one.superseded_by,
    }
