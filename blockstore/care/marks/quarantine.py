"""The mark of the compactor's quarantine: whose it is, and when it may go.

Rules:
- It is a no-compact mark with the reason ``malformed``: a merge found the block damaged. One with
  any other reason, or one that cannot be read, may be a person's, and is left to a person.
- It goes once every byte of the block was looked at and nothing was found that a merge would
  stumble over.

- A person, or whoever hides a block, who wants it kept from merges takes the quarantine's mark
  over: it is theirs from then on, its time counts anew, and no repair takes it away.

Taking the quarantine's own mark away is safe at any time. No reader heeds it, and no removal: it
only keeps the block out of merges, and a merge hashes what it reads, so it marks the block anew if
that is damaged all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.care.finding import Check, Finding, Severity
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.marks import NoCompactMark, NoCompactReason, decode_no_compact_mark
from blockstore.lifecycle.mark import place_no_compact, withdraw_no_compact
from blockstore.names import no_compact_mark_key
from blockstore.world import World

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
"""Findings that another copy of the block mends.

Rows of a foreign source are not among them: nobody can say whose they are.
"""

_STUMBLES = DAMAGE | {Check.SOURCE}
"""What a merge refuses, or should not be given."""


def can_merge(findings: Iterable[Finding]) -> bool:
    """Whether merges may take a block of which a deep look found this.

    Text that is no UTF-8 can be merged.
    """
    return not any(one.check in _STUMBLES for one in findings)


def quarantined_as(mark: NoCompactMark | None) -> str | None:
    """What a merge had found, where the mark is the quarantine's; else None."""
    if mark is None or mark.reason is not NoCompactReason.MALFORMED:
        return None
    return mark.details or "a merge found it damaged"


def release(bucket: Bucket, world: World, ulid: str) -> bool:
    """Take the quarantine's mark away;

    False where none lies there now, or one that is a person's.
    """
    if quarantined_as(_mark(bucket, ulid)) is None:
        return False
    withdraw_no_compact(bucket, world, ulid)
    return True


def take_over(bucket: Bucket, world: World, ulid: str, details: str) -> bool:
    """Keep a block from merges by a mark that is not the quarantine's; False where such a one lies
    there already.

    Raises NotFound where nothing lies in its directory.
    """
    if place_no_compact(bucket, world, ulid, NoCompactReason.MANUAL, details):
        return True
    found = quarantined_as(_mark(bucket, ulid))
    if found is None or not release(bucket, world, ulid):
        return False
    reason = "; ".join(filter(None, (details, f"a merge had found it damaged: {found}")))
    return place_no_compact(bucket, world, ulid, NoCompactReason.MANUAL, reason)


def _mark(bucket: ReadBucket, ulid: str) -> NoCompactMark | None:
    try:
        return decode_no_compact_mark(bucket.get(no_compact_mark_key(ulid)).data, ulid=ulid)
    except (Corrupt, ObjectMissing):
        return None


def check_quarantined(
    marked: Mapping[str, str], findings: Iterable[Finding], url: str, *, deep: bool
) -> Iterator[Finding]:
    """Those of the ``marked`` blocks that readers read (ULID to what a merge had found) of which
    ``findings`` tell no damage."""
    by_block: dict[str, list[Finding]] = {ulid: [] for ulid in marked}
    for finding in findings:
        if finding.block in by_block:
            by_block[finding.block].append(finding)
    for ulid, why in marked.items():
        if not can_merge(by_block[ulid]):
            continue
        seen = (
            "and it is whole"
            if deep
            else "and all but its bytes, which only the repair looks at, is whole"
        )
        yield Finding(
            severity=Severity.WARNING,
            check=Check.MARK,
            object=no_compact_mark_key(ulid),
            block=ulid,
            what=f"no merge takes the block, which was found damaged ({why}), {seen}",
            fix=f"blockstore repair {url} --block {ulid}",
        )
