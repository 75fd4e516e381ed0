"""What a statement did."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one statement did, and the rows that it returns.

    A count is None where it is not known: a statement that was done before, by its job, counts
    nothing.
    """

    statement: str
    """Its kind: ``SELECT``, ``UPDATE``, …"""
    table: str | None = None
    """The table that it changed."""
    version: int | None = None
    """The version that it made; None if there was nothing to change."""
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    unchanged: int | None = None
    """Rows that it met and left as they were."""
    written: int | None = None
    """Rows that were written to a file."""
    already: bool = False
    """Whether its job had been done before."""
    rows: pa.RecordBatchReader | None = None
    """The rows of a query, or of RETURNING; they can be read once."""

    @property
    def counts(self) -> dict[str, int]:
        """The counts that are known, by what they count."""
        given = {
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "unchanged": self.unchanged,
            "written": self.written,
        }
        return {name: count for name, count in given.items() if count}

    def with_rows(self, rows: pa.RecordBatchReader) -> Outcome:
        """The same with other rows."""
        return replace(self, rows=rows)

    def to_arrow(self) -> pa.Table:
        """The rows; without columns if the statement returns none."""
        return pa.table({}) if self.rows is None else self.rows.read_all()

    def __str__(self) -> str:
        """One line for people: ``UPDATE: 3 updated, version 7``."""
        if self.already:
            return f"{self.statement}: already done, version {self.version}"
        if self.statement == "ROLLBACK":
            return "ROLLBACK: nothing was changed"
        parts = [f"{count:,} {name}" for name, count in self.counts.items()]
        if self.version is not None:
            parts.append(f"version {self.version}")
        elif self.statement == "COMMIT":
            parts = []
        return f"{self.statement}: {', '.join(parts) if parts else 'nothing to change'}"
