"""Check directories without a live block: leftovers, uploads, and blocks that need a person. Pure.

Rules:
- What the protocols handle themselves is not a finding: a fresh upload, a superseded block, a
  marked one.
- A complete block that will never be published, a malformed one and an unreadable mark need a
  person (R4, 3.6).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from blockstore.care.examine import Examined
from blockstore.care.finding import Check, Finding, Severity
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.properties import Properties
from blockstore.ids import ulid_time_ms
from blockstore.index.state import State
from blockstore.lifecycle.standing import standing_of
from blockstore.lifecycle.states import BlockState, Standing, Verdict, classify
from blockstore.names import meta_key

_AHEAD_MS = 5 * 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known of the table when a block is judged."""

    url: str
    state: State | None
    indexed: bool
    """Whether there is an index, even if it cannot be read."""
    index_complete: bool
    """Whether the index could be followed to its end. Otherwise blocks that it does not name are
    not judged."""
    properties: Properties
    now_ms: int


def check_any(found: Examined, files: tuple[str, ...], around: Surroundings) -> Iterator[Finding]:
    """Check what concerns every directory: unreadable marks, clocks, debris in complete blocks."""
    for key, problem in found.mark_problems:
        kind = "--deletion" if "deletion" in key else "--no-compact"
        yield Finding(
            severity=Severity.WARNING,
            check=Check.MARK,
            object=key,
            block=found.ulid,
            what=problem,
            fix=f"blockstore mark {around.url} {found.ulid} {kind} --remove, then mark it again if "
            "needed",
        )
    uploaded_ms = 0 if found.meta is None else found.meta.uploaded_time
    ahead_ms = max(ulid_time_ms(found.ulid), uploaded_ms) - around.now_ms
    if ahead_ms > _AHEAD_MS:
        by = (
            f" by {found.meta.producer!r}" if found.meta is not None and found.meta.producer else ""
        )
        yield Finding(
            severity=Severity.WARNING,
            check=Check.CLOCK,
            object=found.ulid,
            block=found.ulid,
            what=f"written{by} {ahead_ms / 60_000:,.0f} minutes ahead of the store's clock, "
            "expected at most 5",
            fix="set the clock of the machine that wrote it; readers see the block when the "
            "store's "
            "clock has passed that time",
        )
    debris = found.debris(files) if found.meta is not None else ()
    if debris:
        size = sum(found.directory.objects[path].size for path in debris)
        yield Finding(
            severity=Severity.NOTE,
            check=Check.DEBRIS,
            object=found.ulid,
            block=found.ulid,
            what=f"{len(debris):,} objects of {size:,} bytes that its meta.json does not list "
            f"(such as {debris[0]}), left by failed attempts",
            fix="nothing: no program reads them, and they are removed with the block",
        )


def check_other(found: Examined, held: bool, around: Surroundings) -> Iterator[Finding]:
    """Check a directory without a live block.

    ``held`` says whether other visible blocks hold all of its rows.
    """
    if around.indexed and not around.index_complete:
        return
    evidence = found.found.evidence(around.state, covered=held)
    verdict = classify(evidence, around.now_ms, around.properties)
    if verdict.state is BlockState.PARTIAL:
        size = sum(info.size for info in found.directory.objects.values())
        yield Finding(
            severity=Severity.NOTE,
            check=Check.PARTIAL,
            object=found.ulid,
            block=found.ulid,
            what=f"{verdict.reason}: {len(found.directory.objects):,} objects of {size:,} bytes",
            fix=f"blockstore cleanup {around.url}, or leave it to the compactor",
        )
    elif verdict.state is BlockState.MALFORMED:
        yield _malformed(found, verdict, held, around)
    elif found.meta is not None and verdict.state is BlockState.READY and around.state is not None:
        problem = _never_published(found.meta, around.state)
        if problem is not None:
            yield _quarantined(found, problem, around)


def _malformed(found: Examined, verdict: Verdict, held: bool, around: Surroundings) -> Finding:
    if found.is_complete and standing_of(found.ulid, found.meta, around.state) is Standing.LATE:
        return _quarantined(found, verdict.reason, around)
    if found.is_complete and not around.indexed:
        return _index_lost(found, verdict, around)
    accounted = held or standing_of(found.ulid, found.meta, around.state) is Standing.ACCOUNTED
    by_age = found.meta is None or found.meta.visible_by is VisibleBy.AGE
    lost = not around.indexed and by_age and not accounted
    return Finding(
        severity=Severity.NOTE if accounted else Severity.ERROR if lost else Severity.WARNING,
        check=Check.BLOCK,
        object=meta_key(found.ulid),
        block=found.ulid,
        what=verdict.reason
        + ("; other blocks hold its rows" if accounted else "; its rows are not read"),
        fix=f"blockstore mark {around.url} {found.ulid} --deletion"
        if accounted
        else f"blockstore repair {around.url} --block {found.ulid} --from REPLICA, or mark it for "
        "deletion",
    )


def _index_lost(found: Examined, verdict: Verdict, around: Surroundings) -> Finding:
    """Report a complete block that is malformed only because there is no index."""
    return Finding(
        severity=Severity.ERROR,
        check=Check.BLOCK,
        object=meta_key(found.ulid),
        block=found.ulid,
        what=f"{verdict.reason}: was its index lost?",
        fix=f"if it had one, blockstore index rebuild {around.url}; if not, blockstore mark "
        f"{around.url} {found.ulid} --deletion",
    )


def _never_published(meta: BlockMeta, state: State) -> str | None:
    """Return why discovery never publishes an aged block, or None if it will."""
    held = state.accounted.held(meta.sources)
    if held:
        return (
            f"the index already accounts for {len(held)} of its {len(meta.sources)} sources, "
            f"such as {held[0]}"
        )
    if state.definition.id_of(meta.schema) is None:
        return "the table's definition does not know its schema"
    return None


def _quarantined(found: Examined, problem: str, around: Surroundings) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        check=Check.QUARANTINE,
        object=found.ulid,
        block=found.ulid,
        what=f"a complete block that will not be published: {problem}",
        fix=f"blockstore repair {around.url} --adopt {found.ulid}, or blockstore mark "
        f"{around.url} {found.ulid} --deletion",
    )
