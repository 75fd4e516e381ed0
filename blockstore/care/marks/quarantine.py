"""The compactor's quarantine mark: how to recognize it, when it is wrong, and how to remove it.

Rules:
- It is a no-compact mark with the reason ``malformed``: a merge found the block damaged. A mark
  with another reason, or one that cannot be read, may be a person's, and is left to a person.
- It is removed when every byte of the block was checked and nothing was found that a merge would
  refuse.
- A person, or code that hides a block, takes the quarantine's mark over to keep the block out of
  merges: the mark's time starts again, and no repair removes it from then on.
- A check that reports the damage itself does not report the mark. A fast check reads no bytes; it
  says so and leaves them to the repair.

Removing the quarantine's own mark is safe at any time. Readers and removals ignore it. It only
keeps the block out of merges, and a merge hashes what it reads, so it marks a damaged block again.
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
"""Findings that another copy of the block fixes.

Rows of a foreign source are not among them: their origin is not known.
"""

_STUMBLES = DAMAGE | {Check.SOURCE}
"""What a merge refuses, or should not get."""


def can_merge(findings: Iterable[Finding]) -> bool:
    """Return whether merges may take a block with these findings of a deep check.

    Text that is not UTF-8 can be merged.
    """
    return not any(one.check in _STUMBLES for one in findings)


def quarantined_as(mark: NoCompactMark | None) -> str | None:
    """Return what a merge had found, if the mark is the quarantine's; else None."""
    if mark is None or mark.reason is not NoCompactReason.MALFORMED:
        return None
    return mark.details or "a merge found it damaged"


def release(bucket: Bucket, world: World, ulid: str) -> bool:
    """Remove the quarantine's mark; False if there is none, or if it is a person's."""
    if quarantined_as(_mark(bucket, ulid)) is None:
        return False
    withdraw_no_compact(bucket, world, ulid)
    return True


def take_over(bucket: Bucket, world: World, ulid: str, details: str) -> bool:
    """Keep a block out of merges by a mark that is not the quarantine's.

    Returns False if it has such a mark already. Raises NotFound if its directory is empty.
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
    """Report the ``marked`` blocks that are not damaged.

    ``marked`` maps the ULIDs of visible blocks to what a merge had found; ``findings`` are all
    others of this check.
    """
    by_block: dict[str, list[Finding]] = {ulid: [] for ulid in marked}
    for finding in findings:
        if finding.block in by_block:
            by_block[finding.block].append(finding)
    for ulid, why in marked.items():
        if not can_merge(by_block[ulid]):
            continue
        seen = (
            "and it is intact"
            if deep
            else "and it is intact, except for its bytes, which only the repair reads"
        )
        yield Finding(
            severity=Severity.WARNING,
            check=Check.MARK,
            object=no_compact_mark_key(ulid),
            block=ulid,
            what=f"no merge takes the block: it was found damaged ({why}), {seen}",
            fix=f"blockstore repair {url} --block {ulid}",
        )
