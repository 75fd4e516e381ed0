"""Which blocks wait for a person, and the command line that helps with each.

Two findings: what cleaning found (malformed, or whole and refused by the index), and what merging found, which lies in the
bucket as a no-compact mark with the reason ``malformed``, so that every process sees it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.marks import NoCompactReason, decode_no_compact_mark
from blockstore.names import no_compact_mark_key
from compactor.cleaned import Cleaned

__all__ = ["Found", "MarkedMalformed", "found_by_cleaning"]

Found = Mapping[str, tuple[str, str]]
"""ULID to reason and command."""


def found_by_cleaning(cleaned: Cleaned, url: str) -> Found:
    """What a cleaning pass found."""
    return {
        ulid: (reason, _adopt(url, ulid) if ulid in cleaned.refused else _mend(url, ulid))
        for ulid, reason in cleaned.quarantined.items()
    }


class MarkedMalformed:
    """The blocks that a merge found to be damaged, by their marks; each mark is read once."""

    def __init__(self, bucket: ReadBucket) -> None:
        self._bucket = bucket
        self._known: dict[str, tuple[NoCompactReason, str]] = {}

    def look(self, marked: Collection[str], damaged: Mapping[str, str], url: str) -> Found:
        """Those of the blocks with a no-compact mark that a merge found to be damaged, and the ``damaged`` of late."""
        self._known = {ulid: known for ulid, known in self._known.items() if ulid in marked}
        for ulid in sorted(set(marked) - self._known.keys()):
            mark = self._read(ulid)
            if mark is not None:
                self._known[ulid] = mark
        late = {ulid: (problem, _mend(url, ulid)) for ulid, problem in damaged.items()}
        return late | {
            ulid: (details or "a merge found it damaged", _mend(url, ulid))
            for ulid, (reason, details) in self._known.items()
            if reason is NoCompactReason.MALFORMED
        }

    def _read(self, ulid: str) -> tuple[NoCompactReason, str] | None:
        """None where the mark is not there now, whatever a listing said: one that comes later is another."""
        try:
            mark = decode_no_compact_mark(self._bucket.get(no_compact_mark_key(ulid)).data, ulid=ulid)
        except ObjectMissing:
            return None
        except Corrupt as error:
            return NoCompactReason.MALFORMED, f"its mark cannot be read: {error}"
        return mark.reason, mark.details


def _mend(url: str, ulid: str) -> str:
    return f"blockstore repair {url} --block {ulid} --dry-run"


def _adopt(url: str, ulid: str) -> str:
    return f"blockstore repair {url} --adopt {ulid}"
