"""Metadata for other engines, kept up to date while the process runs.

Rules:
- A pass lists what is there, writes what the newest version needs and lacks, and changes nothing
  else. So what was lost is written again by the next pass.
- An object that the newest document does not name is removed a ``delete_delay`` after a pass first
  saw it so: an engine that has read an older document finds the blocks that it names no longer
  than that. A process that starts begins to count again.
- So is a file that an engine wrote to commit it, and did not commit: no version names it. A commit
  that takes longer than a ``delete_delay`` is refused, for its files are gone.
- A document that appears during a pass, and names such an object again, lacks it until the next
  pass. No row is at stake: the export is derived, and an engine gets an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.errors import TableDropped
from blockstore.export.exported import Exported, Memo
from blockstore.export.formats import Format
from blockstore.table import Table

_AT_ONCE = 1_000
"""Objects removed by one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPass:
    """What a pass did."""

    version: int | None
    """The version that is exported; None for a table that is dropped."""
    written: int
    removed: int


class Exporter:
    """The export of one table in one format; for one thread."""

    def __init__(self, table: Table, format: Format) -> None:  # noqa: A002
        self._table = table
        self._format = format
        self._made: Exported | None = None
        self._memo = Memo()
        self._unnamed: dict[str, float] = {}
        """Since when each object is there that the newest document does not name."""

    def run(self) -> ExportPass:
        """Export the newest version if that is not done. Raises Invalid for a table that the
        format cannot show, and what the store raises."""
        table = self._table
        found = {info.key for info in table.bucket.list(self._format.folder)}
        try:
            version = table.poll()
            made = self._made
            whole = made is not None and made.version == version and made.objects <= found
            if not whole:
                self._memo.begin(found)
                made = self._format.export(table, self._memo)
        except TableDropped:
            made, whole = None, True
        self._made = made
        named = {self._format.hint} if made is None else made.objects | {self._format.hint}
        if self._format.incoming is not None:
            found |= {info.key for info in table.bucket.list(self._format.incoming)}
        return ExportPass(
            version=None if made is None else made.version,
            written=0 if whole or made is None else made.written,
            removed=self._remove(found - named),
        )

    @property
    def pending(self) -> bool:
        """Whether objects wait to be removed: since when is known to this process alone."""
        return bool(self._unnamed)

    def _remove(self, unnamed: set[str]) -> int:
        now_s = self._table.world.clock.monotonic_s()
        self._unnamed = {key: self._unnamed.get(key, now_s) for key in unnamed}
        lasts_s = self._table.definition.properties.delete_delay_s
        due = sorted(key for key, since_s in self._unnamed.items() if now_s - since_s >= lasts_s)
        for first in range(0, len(due), _AT_ONCE):
            self._table.bucket.delete(due[first : first + _AT_ONCE])
        return len(due)
