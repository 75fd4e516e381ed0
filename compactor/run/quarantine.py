"""Quarantine: blocks that are kept from merges until a person decides, and the command for each.

Rules:
- A damaged block gets a no-compact mark with the reason ``malformed`` and a sentence that says what
  was found and what to do, once. Readers read it as before. A ``repair`` that finds the block
  complete (``blockstore/care``) removes the mark, or a person does. A block that is gone, or marked
  for deletion, is not damaged: another process merged it.
- Two findings wait for a person: what cleaning found (malformed, or complete and refused by the
  index), and what merging found. The second is in the bucket, as a mark, so every process sees it.
- Each command repairs what can be repaired without losing a row, removes the mark once the block is
  complete, and otherwise says what it needs. With ``--dry-run`` a repair only looks.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from shlex import quote

from blockstore.bucket.api import ReadBucket, is_there
from blockstore.compactor.clean.report import CleaningReport
from blockstore.errors import Corrupt, NotFound, ObjectMissing
from blockstore.format.marks import NoCompactReason, decode_no_compact_mark
from blockstore.lifecycle.mark import place_no_compact
from blockstore.names import deletion_mark_key, meta_key, no_compact_mark_key
from blockstore.table import Table

_logger = logging.getLogger(__name__)

Found = Mapping[str, tuple[str, str]]
"""ULID to reason and command."""


def quarantine(table: Table, ulid: str, why: str) -> bool:
    """Mark the block if readers still read it; return whether they do.

    A block that readers no longer read was not damaged.
    """
    if not _is_live(table, ulid):
        return False
    try:
        placed = place_no_compact(table.bucket, table.world, ulid, NoCompactReason.MALFORMED, why)
    except NotFound:
        placed = False  # no object of it is left: every merge reports it again
    if placed:
        _logger.warning("block %s of %s is quarantined: %s", ulid, table.url, why)
    return True


def _is_live(table: Table, ulid: str) -> bool:
    if table.indexed:
        return ulid in table.log.poll().blocks
    return is_there(table.bucket, meta_key(ulid)) and not is_there(
        table.bucket, deletion_mark_key(ulid)
    )


def found_by_cleaning(cleaned: CleaningReport, url: str) -> Found:
    """The blocks that a cleaning pass found."""
    return {
        ulid: (reason, _adopt(url, ulid) if ulid in cleaned.refused else _repair(url, ulid))
        for ulid, reason in cleaned.quarantined.items()
    }


class DamageMarks:
    """The blocks that merges found damaged, by their marks; each mark is read once."""

    def __init__(self, bucket: ReadBucket) -> None:
        self._bucket = bucket
        self._known: dict[str, _Mark] = {}
        self._had: frozenset[str] = frozenset()
        """Blocks found damaged recently that had a mark when last seen."""

    def look(self, marked: Collection[str], damaged: Mapping[str, str], url: str) -> Found:
        """Those of the ``marked`` blocks that a merge found damaged, and those recently found
        ``damaged``."""
        self._known = {ulid: known for ulid, known in self._known.items() if ulid in marked}
        for ulid in sorted(set(marked) - self._known.keys()):
            mark = self._read(ulid)
            if mark is not None:
                self._known[ulid] = mark
        now = {ulid for ulid in damaged if ulid in self._known or self._read(ulid) is not None}
        # The process remembers its findings for an hour, longer than a person may need to repair
        # the block and remove the mark.
        late = {
            ulid: (problem, _repair(url, ulid))
            for ulid, problem in damaged.items()
            if ulid in now or ulid not in self._had
        }
        self._had = (self._had & damaged.keys()) | now
        return late | {
            ulid: (mark.reason, mark.command(url, ulid))
            for ulid, mark in self._known.items()
            if mark.waits
        }

    def _read(self, ulid: str) -> _Mark | None:
        """The mark, or None if it does not exist now, whatever a listing said."""
        try:
            mark = decode_no_compact_mark(
                self._bucket.get(no_compact_mark_key(ulid)).data, ulid=ulid
            )
        except ObjectMissing:
            return None
        except Corrupt as error:
            return _Mark(waits=True, reason=f"its mark cannot be read: {error}", readable=False)
        waits = mark.reason is NoCompactReason.MALFORMED
        return _Mark(waits=waits, reason=mark.details or "a merge found it damaged")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """A no-compact mark that was read once."""

    waits: bool
    """Whether the block waits for a person."""
    reason: str
    readable: bool = True

    def command(self, url: str, ulid: str) -> str:
        """The command for the block. A mark that cannot be read may be a person's, so no repair
        removes it."""
        if self.readable:
            return _repair(url, ulid)
        return f"blockstore mark {quote(url)} {ulid} --no-compact --remove"


def _repair(url: str, ulid: str) -> str:
    return f"blockstore repair {quote(url)} --block {ulid}"


def _adopt(url: str, ulid: str) -> str:
    return f"blockstore repair {quote(url)} --adopt {ulid}"
