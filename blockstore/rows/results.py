"""What operations on rows return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsChanged:
    """What an insert, upsert, update, delete or merge did.

    A count is None where the operation did not look: an upsert or a delete by key reads no row.
    """

    operation: str
    version: int | None = None
    """The version that holds the changes; None where there was nothing to change."""
    blocks: tuple[str, ...] = ()
    """The blocks of the changes, one for each set of labels that the changed rows have."""
    already: bool = False
    """Whether the job had been committed before; then no row was counted."""
    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0
    unchanged: int | None = 0
    """Rows that matched, and that the operation left as they were."""
    cells: Mapping[str, int] | None = None
    """Of a row set: in how many of the updated rows each column has another value."""

    @property
    def block(self) -> str | None:
        """The block of the changes, where there is one alone."""
        return self.blocks[0] if len(self.blocks) == 1 else None
