"""The life of a block: its states, the one function that computes them, the one table of what may
follow what.

Rules:
- The state is a pure function of (listing, meta, mark, index, now); every ``now`` and every age is
  the store's.
- R2: a block that no entry names is ready when its ULID's time, its ``uploaded_time`` and its
  meta.json's LastModified are all ``sync_delay`` old, or its meta.json waives the wait.
- R4: a directory without a meta.json is partial once its ULID and its newest object are
  ``partial_delay`` old. A malformed block is quarantined and never deleted by itself: a partial or
  superseded mark does not move it on.
- What the index holds live is ready whatever mark is on it (3.2): only an entry changes that.
- A block too young to judge is fresh, also when it looks damaged: its listing may have been taken
  midway.

Whether a block may be marked or removed is not decided here (R6, R8): a state is what is, not what
to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.marks import MarkReason
from blockstore.format.properties import Properties
from blockstore.ids import ulid_time_ms


class BlockState(StrEnum):
    """Where a block is in its life."""

    FRESH = "fresh"
    PARTIAL = "partial"
    MALFORMED = "malformed"
    READY = "ready"
    SUPERSEDED = "superseded"
    MARKED = "marked"
    DELETING = "deleting"


class Standing(StrEnum):
    """What the index says of a block."""

    NO_INDEX = "no index"
    UNKNOWN = "unknown"
    """No entry accounts for all of its sources, and it is above the watermark that concerns it."""
    LIVE = "live"
    ACCOUNTED = "accounted"
    """Not live, and entries account for all of its sources."""
    CONDEMNED = "condemned"
    """A ``visible_by: index`` block at or below the horizon that no entry names: none ever will."""
    LATE = "late"
    """A ``visible_by: age`` block, or a source of it, at or below the floor: a person decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that decides a block's state. A directory that does not exist has no evidence."""

    ulid: str
    newest_ms: int
    """LastModified of the newest object in the directory."""
    meta: BlockMeta | None = None
    """What meta.json says, where it is there and parses."""
    meta_modified_ms: int | None = None
    """LastModified of meta.json; None = there is none."""
    damage: str | None = None
    """Why meta.json is malformed: it does not parse, is newer, or contradicts the listing."""
    mark: MarkReason | None = None
    mark_modified_ms: int = 0
    standing: Standing = Standing.NO_INDEX
    covered: bool = False
    """The cover leaves the block out, because others account for all of its sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A state, and the reason for it as one clause."""

    state: BlockState
    reason: str


def aged(evidence: Evidence, now_ms: int, properties: Properties) -> bool:
    """Whether the wait of R2 is over: by age, or waived."""
    if evidence.meta_modified_ms is None:
        return False
    if evidence.meta is not None and evidence.meta.ignore_delay:
        return True
    uploaded_ms = evidence.meta.uploaded_time if evidence.meta is not None else 0
    youngest = max(ulid_time_ms(evidence.ulid), uploaded_ms, evidence.meta_modified_ms)
    return now_ms - youngest >= properties.sync_delay_s * 1000


def classify(evidence: Evidence, now_ms: int, properties: Properties) -> Verdict:
    """The state of a block whose directory exists, and why."""
    damaged = evidence.damage is not None or (
        evidence.meta_modified_ms is not None and evidence.meta is None
    )
    if evidence.standing is Standing.LIVE:
        if damaged or evidence.meta_modified_ms is None:
            what = evidence.damage or "meta.json is missing"
            return Verdict(state=BlockState.MALFORMED, reason=f"an entry names it, but {what}")
        return Verdict(state=BlockState.READY, reason="an index entry names it")
    if evidence.meta_modified_ms is None:
        return _marked(evidence, now_ms, properties) or _without_meta(evidence, now_ms, properties)
    if damaged:
        return _damaged(evidence, now_ms, properties)
    if evidence.mark is MarkReason.PARTIAL and evidence.standing is not Standing.CONDEMNED:
        return Verdict(
            state=BlockState.MARKED, reason="marked partial, and complete since: to be withdrawn"
        )
    return _marked(evidence, now_ms, properties) or _unmarked(evidence, now_ms, properties)


def _marked(evidence: Evidence, now_ms: int, properties: Properties) -> Verdict | None:
    if evidence.mark is None:
        return None
    if properties.is_due(evidence.mark_modified_ms, now_ms):
        return Verdict(
            state=BlockState.DELETING, reason=f"marked {evidence.mark} for longer than delete_delay"
        )
    return Verdict(state=BlockState.MARKED, reason=f"marked {evidence.mark}")


def _without_meta(evidence: Evidence, now_ms: int, properties: Properties) -> Verdict:
    youngest = max(ulid_time_ms(evidence.ulid), evidence.newest_ms)
    if now_ms - youngest >= properties.partial_delay_s * 1000:
        return Verdict(
            state=BlockState.PARTIAL, reason="no meta.json for longer than partial_delay"
        )
    return Verdict(state=BlockState.FRESH, reason="no meta.json yet: being uploaded")


def _damaged(evidence: Evidence, now_ms: int, properties: Properties) -> Verdict:
    damage = evidence.damage or "meta.json does not parse"
    if evidence.mark not in (None, MarkReason.PARTIAL, MarkReason.SUPERSEDED):
        marked = _marked(evidence, now_ms, properties)
        assert marked is not None
        return marked
    if not aged(evidence, now_ms, properties):
        return Verdict(state=BlockState.FRESH, reason=f"too young to judge, although {damage}")
    return Verdict(state=BlockState.MALFORMED, reason=damage)


def _unmarked(evidence: Evidence, now_ms: int, properties: Properties) -> Verdict:
    """A complete block without a mark that no entry names."""
    assert evidence.meta is not None
    if evidence.standing is Standing.ACCOUNTED:
        return Verdict(
            state=BlockState.SUPERSEDED, reason="the index accounts for its sources without it"
        )
    if evidence.standing is Standing.CONDEMNED:
        return Verdict(
            state=BlockState.PARTIAL, reason="never committed, and at or below the horizon"
        )
    if evidence.standing is Standing.LATE:
        return Verdict(
            state=BlockState.MALFORMED, reason="discovered too late: at or below the floor"
        )
    if evidence.meta.visible_by is VisibleBy.INDEX:
        if evidence.standing is Standing.NO_INDEX:
            return Verdict(
                state=BlockState.MALFORMED,
                reason="visible only by an index, and the table has none",
            )
        return Verdict(state=BlockState.FRESH, reason="waits for its index entry")
    if not aged(evidence, now_ms, properties):
        return Verdict(state=BlockState.FRESH, reason="younger than sync_delay")
    if evidence.covered:
        return Verdict(
            state=BlockState.SUPERSEDED, reason="other blocks account for all of its sources"
        )
    return Verdict(state=BlockState.READY, reason="complete, and older than sync_delay")


_FRESH, _PARTIAL, _MALFORMED, _READY = (
    BlockState.FRESH,
    BlockState.PARTIAL,
    BlockState.MALFORMED,
    BlockState.READY,
)
_SUPERSEDED, _MARKED, _DELETING = BlockState.SUPERSEDED, BlockState.MARKED, BlockState.DELETING

TRANSITIONS: Mapping[BlockState | None, Mapping[BlockState | None, str]] = {
    None: {
        _FRESH: "its first object was uploaded",
    },
    _FRESH: {
        _PARTIAL: "its upload was aborted, or its entry can no longer be committed",
        _MALFORMED: "its wait is over and it cannot be read, or the floor passed it",
        _READY: "its wait is over, or an entry names it",
        _SUPERSEDED: "its wait is over and others hold its rows, or an entry accounts for them",
        _MARKED: "a person marked it before it was ready",
        _DELETING: "a damaged one with an old mark lost its meta.json, or can be read again",
    },
    _PARTIAL: {
        _FRESH: "a stalled upload went on",
        _READY: "a stalled upload ended with the wait waived, or an entry names it after all",
        _MALFORMED: "a stalled upload ended with the wait waived and cannot be read, or the floor "
        "passed it",
        _SUPERSEDED: "a stalled upload ended and others hold its rows",
        _MARKED: "the compactor, or a person, marked it",
    },
    _MALFORMED: {
        _FRESH: "it can be read again, and has to wait",
        _PARTIAL: "its meta.json is gone, or it can be read again and the horizon has passed it",
        _READY: "it can be read again, or a person adopted it",
        _SUPERSEDED: "it can be read again and others hold its rows, or an entry removed it",
        _MARKED: "a person marked it, or a marked one can be read again",
        _DELETING: "it can be read again, and its mark is older than delete_delay",
    },
    _READY: {
        _FRESH: "its meta.json was lost and its directory is young",
        _PARTIAL: "its meta.json was lost",
        _MALFORMED: "it was damaged, or the floor passed it",
        _SUPERSEDED: "another block accounts for its sources, or an entry removed it",
        _MARKED: "it was marked, or an entry removed a marked one",
        _DELETING: "an entry removed it, and its mark is older than delete_delay",
    },
    _SUPERSEDED: {
        _FRESH: "its meta.json was lost and its directory is young",
        _PARTIAL: "its meta.json was lost",
        _READY: "what held its rows is gone, or an entry restored it",
        _MALFORMED: "it was damaged, or the floor passed and the index forgot it",
        _MARKED: "the compactor, or a person, marked it",
    },
    _MARKED: {
        _FRESH: "the mark was withdrawn before its wait was over",
        _PARTIAL: "the mark was withdrawn",
        _MALFORMED: "it was damaged, or a mark on a damaged one was withdrawn",
        _READY: "the mark was withdrawn, or an entry names it",
        _SUPERSEDED: "the mark was withdrawn and others hold its rows",
        _DELETING: "delete_delay is over",
        None: "a person forced its removal",
    },
    _DELETING: {
        _FRESH: "the mark was withdrawn before its wait was over",
        _PARTIAL: "the mark was withdrawn",
        _MALFORMED: "it was damaged, or a mark on a damaged one was withdrawn",
        _READY: "the mark was withdrawn, or an entry names it",
        _SUPERSEDED: "the mark was withdrawn and others hold its rows",
        _MARKED: "a stalled upload ended after all: the partial mark will be withdrawn",
        None: "its last object was removed",
    },
}
"""Which state may follow which, and why. None is a directory that does not exist."""


def may_follow(before: BlockState | None, after: BlockState | None) -> bool:
    """Whether one step leads from ``before`` to ``after``; staying where it is always may."""
    return before == after or after in TRANSITIONS[before]
