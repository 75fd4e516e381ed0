"""What a cleaning pass does to the marks and blocks of a table: pure decisions over one ``Sight``.

Rules:
- R4: two phases. An aborted upload is marked, and removed only when it still is one after
  ``delete_delay``. A partial mark on a block that became complete is withdrawn once its meta.json
  is ``delete_delay``/2 old: by then every removal that was decided without seeing it has been
  dropped.
- R6: only what may go is marked, by the index (``by_index.py``) or by the cover (``by_cover.py``).
- R8: nothing is removed before its mark is ``delete_delay`` old by LastModified, and then only if
  it may go by this sight, too. A superseded mark that no longer holds by then is withdrawn.
- R7: a block goes only after what must go before it (``removal_order.py``); what cannot go yet
  waits, and says for what.
- A person's mark is never withdrawn here. A malformed block is named, and never removed without a
  person's mark.
- A block that the caller leaves alone is neither marked nor removed. Its marks are withdrawn as any
  other's.
- Retention is another decision (the compactor's ``retention.py``): here its mark is a person's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from blockstore.format.marks import MarkReason
from blockstore.lifecycle.by_cover import ByCover, listed_of
from blockstore.lifecycle.by_index import ByIndex
from blockstore.lifecycle.fate import Rule, Ruling
from blockstore.lifecycle.list_path import Listed
from blockstore.lifecycle.listing import Found
from blockstore.lifecycle.removal_order import Order
from blockstore.lifecycle.sight import Sight, complete_meta
from blockstore.names import DELETION_MARK

_NONE: Mapping[str, str] = {}


class Action(StrEnum):
    """What is done to a directory."""

    MARK = "mark"
    WITHDRAW = "withdraw"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One directory and what is done to it."""

    action: Action
    ulid: str
    reason: MarkReason
    """The reason of the mark: the one to place, to withdraw, or under which the block goes."""
    why: str
    superseded_by: str | None = None
    after: frozenset[str] = frozenset()
    """For a removal: blocks of the same plan that must be gone first (R7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removals:
    """What is done to the directories whose marks are due."""

    decisions: tuple[Decision, ...]
    """Removals in an order that R7 allows, and the marks to withdraw."""
    waiting: Mapping[str, str]
    """Due, and staying for now: ULID to why."""


def rule_of(sight: Sight, listed: Listed | None = None) -> Rule:
    """How the directories of a sight are judged."""
    if sight.state is not None:
        return ByIndex(sight, sight.state)
    return ByCover(sight, listed_of(sight) if listed is None else listed)


def decide_marks(sight: Sight, left_alone: Collection[str] = ()) -> tuple[Decision, ...]:
    """The marks to place, none of them on a block that is ``left_alone``, and the partial marks to
    withdraw."""
    rule = rule_of(sight)
    decided = []
    for ulid, one in sorted(sight.found.items()):
        if DELETION_MARK not in one.directory.objects:
            if ulid in left_alone:
                continue
            fate = rule.to_mark(one)
            if fate.goes:
                decided.append(
                    Decision(
                        action=Action.MARK,
                        ulid=ulid,
                        reason=fate.reason,
                        why=fate.why,
                        superseded_by=fate.superseded_by,
                    )
                )
        elif _partial_and_complete(sight, rule, one) and sight.outlived_old_looks(one):
            decided.append(
                Decision(
                    action=Action.WITHDRAW,
                    ulid=ulid,
                    reason=MarkReason.PARTIAL,
                    why="it became complete, and its meta.json is older than delete_delay/2",
                )
            )
    return tuple(decided)


def decide_removals(sight: Sight, left_alone: Mapping[str, str] = _NONE) -> Removals:
    """What becomes of the blocks whose marks are due. One that is ``left_alone`` waits for the
    reason given, and blocks that must go after it wait for it."""
    listed = listed_of(sight)
    rule = rule_of(sight, listed)
    going: dict[str, Decision] = {}
    withdrawn: list[Decision] = []
    waiting: dict[str, str] = {}
    for ulid, one in sorted(sight.found.items()):
        if not sight.is_due(one) or one.mark is None:
            continue
        fate = rule.to_remove(one)
        if fate.goes and ulid in left_alone:
            waiting[ulid] = left_alone[ulid]
        elif fate.goes:
            going[ulid] = Decision(action=Action.REMOVE, ulid=ulid, reason=one.mark, why=fate.why)
        elif (
            one.mark is MarkReason.SUPERSEDED
            and complete_meta(one) is not None
            and fate.ruling is not Ruling.QUARANTINED
        ):
            withdrawn.append(
                Decision(
                    action=Action.WITHDRAW,
                    ulid=ulid,
                    reason=one.mark,
                    why=f"marked superseded, and {fate.why}",
                )
            )
        else:
            waiting[ulid] = fate.why
    order = Order(sight, listed).arrange(going.keys())
    ordered = [replace(going[ulid], after=order.after[ulid]) for ulid in order.going]
    return Removals(decisions=(*withdrawn, *ordered), waiting={**waiting, **order.waiting})


def quarantined(sight: Sight) -> dict[str, str]:
    """The malformed blocks that no version names, and those that contradict the schema of a table
    without an index: ULID to what is wrong."""
    misfits = listed_of(sight).misfits if sight.state is None else {}
    named: dict[str, str] = {}
    for ulid, one in sorted(sight.found.items()):
        damage = (
            None
            if sight.named_by(ulid) is not None
            else sight.quarantined(one) or misfits.get(ulid)
        )
        if damage is not None:
            named[ulid] = damage
    return named


def _partial_and_complete(sight: Sight, rule: Rule, one: Found) -> bool:
    """An ``index`` block below the horizon stays marked: complete or not, no process can publish it
    any longer."""
    return (
        one.mark is MarkReason.PARTIAL
        and complete_meta(one) is not None
        and not rule.to_remove(one).goes
    )
