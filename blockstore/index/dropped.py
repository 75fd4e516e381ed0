"""That a table was dropped, as a part of its state.

Rules:
- A drop removes no block: the state of a dropped table has all blocks and tags of the version
  before. So the table that is brought back is the one that was dropped, whatever was planned on it
  before.
- The compactor clears a dropped table once ``delete_delay`` has passed: one entry removes all
  blocks and tags, and they go as others that no version names. From then on it cannot be brought
  back.
- A table that is created where one was dropped continues its index: numbers of versions, row ids
  and field ids are never given twice. It forgets the blocks, the tags, the schemas and the batches
  of the table before, and versions before its own are not readable.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.format.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """The entry that dropped the table."""

    version: int
    time_ms: int
    cleared: int | None = None
    """The version in which the blocks and tags left; None while the table can be brought back."""

    def to_json(self) -> dict[str, int]:
        """Return this as a checkpoint holds it."""
        cleared = {} if self.cleared is None else {"cleared": self.cleared}
        return {"version": self.version, "time": self.time_ms, **cleared}

    @classmethod
    def of(cls, rest: Document) -> Dropped | None:
        """Return what a checkpoint holds. Raises Corrupt."""
        if not rest.has("dropped"):
            return None
        found = rest.document("dropped")
        return cls(
            version=found.integer("version", low=2),
            time_ms=found.integer("time"),
            cleared=found.integer("cleared", low=3) if found.has("cleared") else None,
        )
