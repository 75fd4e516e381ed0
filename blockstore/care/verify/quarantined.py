"""Blocks that the compactor keeps from merges as damaged, and that are not, or not any more. Pure.

Rule: where the damage itself is told, the mark is not. A fast look sees no bytes, so it says so and
leaves them to the repair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from blockstore.care.finding import Check, Finding, Severity
from blockstore.care.marks.quarantine import is_whole
from blockstore.names import no_compact_mark_key

__all__ = ["check_quarantined"]


def check_quarantined(
    marked: Mapping[str, str], findings: Iterable[Finding], url: str, *, deep: bool
) -> Iterator[Finding]:
    """Those of the ``marked`` blocks that readers read (ULID to what a merge had found) of which
    ``findings`` tell no damage."""
    told: dict[str, list[Finding]] = {ulid: [] for ulid in marked}
    for finding in findings:
        if finding.block in told:
            told[finding.block].append(finding)
    for ulid, why in marked.items():
        if not is_whole(told[ulid]):
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
