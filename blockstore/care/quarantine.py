"""The mark of the compactor's quarantine: whose it is, and when it may go.

Rules:
- It is a no-compact mark with the reason ``malformed``: a merge found the block damaged. One with any other reason, or one that
  cannot be read, may be a person's, and is left to a person.
- It goes once every byte of the block was looked at and nothing was found that a merge would stumble over.

Taking it away is safe at any time. No reader heeds it, and no removal: it only keeps the block out of merges, and a merge hashes what
it reads, so it marks the block anew if that is damaged all the same. Whoever waits for merges to end by it (``hiding.py``)
looks for it again before going on.
"""

from __future__ import annotations

from collections.abc import Iterable

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.care.finding import Check, Finding
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.marks import NoCompactMark, NoCompactReason, decode_no_compact_mark
from blockstore.lifecycle.mark import withdraw_no_compact
from blockstore.names import no_compact_mark_key

__all__ = ["DAMAGE", "is_whole", "quarantined_as", "release"]

DAMAGE = frozenset(
    {
        Check.BLOCK,
        Check.FILE,
        Check.META,
        Check.HASH,
        Check.CHUNK,
        Check.ORDER,
        Check.STATISTICS,
        Check.TIME,
    }
)
"""Findings that another copy of the block mends. Rows of a foreign source are not among them: nobody can say whose they are."""

_STUMBLES = DAMAGE | {Check.SOURCE}
"""What a merge refuses, or should not be given."""


def is_whole(findings: Iterable[Finding]) -> bool:
    """Whether merges may take a block of which a deep look found this. Text that is no UTF-8 can be merged."""
    return not any(one.check in _STUMBLES for one in findings)


def quarantined_as(mark: NoCompactMark | None) -> str | None:
    """What a merge had found, where the mark is the quarantine's; else None."""
    if mark is None or mark.reason is not NoCompactReason.MALFORMED:
        return None
    return mark.details or "a merge found it damaged"


def release(bucket: Bucket, ulid: str) -> bool:
    """Take the quarantine's mark away; False where none lies there now, or one that is a person's."""
    if quarantined_as(_mark(bucket, ulid)) is None:
        return False
    withdraw_no_compact(bucket, ulid)
    return True


def _mark(bucket: ReadBucket, ulid: str) -> NoCompactMark | None:
    try:
        return decode_no_compact_mark(bucket.get(no_compact_mark_key(ulid)).data, ulid=ulid)
    except (Corrupt, ObjectMissing):
        return None
