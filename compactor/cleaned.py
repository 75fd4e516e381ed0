"""What a cleaning pass tells: what it published, marked, withdrew and removed, and what it left and
why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from blockstore.errors import AccessDenied
from blockstore.lifecycle.decide import Decision

__all__ = ["Cleaned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """One pass over one table. Every mapping is ULID to one clause."""

    url: str
    version: int | None = None
    """The index's version that was decided on; None for a table without an index."""
    dry_run: bool = False
    """Nothing was changed: all of this is what would be done."""
    discovered: tuple[str, ...] = ()
    horizon: str | None = None
    """The horizon that was raised; None if it stayed. So with the floor."""
    floor: str | None = None
    marked: tuple[Decision, ...] = ()
    withdrawn: tuple[Decision, ...] = ()
    removed: tuple[Decision, ...] = ()
    objects: int = 0
    bytes: int = 0
    """Objects and bytes removed."""
    quarantined: Mapping[str, str] = field(default_factory=dict)
    """Malformed, or not to be published: a person decides."""
    refused: frozenset[str] = frozenset()
    """Those of them that are whole, and that the index did not take."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Not live, and a version or a tag names it."""
    kept_bytes: int = 0
    waiting: Mapping[str, str] = field(default_factory=dict)
    """Its mark is due, and it stays for now."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Decided and not carried out: the next pass decides again."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """What the store said of a block that could not be marked, withdrawn or removed."""
    denied: AccessDenied | None = None
    """The first refusal for want of rights among them: a person must give them."""

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
        }


def _decision(one: Decision) -> dict[str, object]:
    return {
        "ulid": one.ulid,
        "reason": one.reason.value,
        "why": one.why,
        "superseded_by": one.superseded_by,
    }
