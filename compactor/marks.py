"""Placing and withdrawing the marks that a cleaning pass decided on.

Rules:
- A decision is dropped whose listing is older than ``delete_delay``/2, or whose mark has changed
  since it was listed.
- Each is idempotent: a mark that is there, or gone, by now is as it should be.
- One directory that fails is named and stops nobody else; a store that answers for none, or refuses
  all, stops the pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from blockstore.bucket.api import Bucket
from blockstore.errors import AccessDenied, BlockstoreError, Unavailable
from blockstore.format.marks import DeletionMark
from blockstore.freshness import Freshness
from blockstore.lifecycle.decide import Action, Decision
from blockstore.lifecycle.listing import Directory
from blockstore.lifecycle.mark import put_mark, withdraw_deletion
from blockstore.lifecycle.rate import Rate
from blockstore.lifecycle.remove import OLD_LOOK, mark_changed
from blockstore.world import World

__all__ = ["Carried", "carry_out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What became of the decisions."""

    done: tuple[Decision, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    denied: AccessDenied | None = None
    """The first refusal for want of rights among the failures: no later pass mends that."""


def carry_out(
    bucket: Bucket,
    world: World,
    decisions: Sequence[Decision],
    directories: Mapping[str, Directory],
    *,
    rate: Rate,
    fresh: Freshness,
    go_on: bool = False,
) -> Carried:
    """Place and withdraw marks, side by side.

    Raises Unavailable where the store answers for none of them, and AccessDenied where none is
    allowed, unless the caller has other work to ``go_on`` with, and looks at ``denied`` afterwards.
    """

    def one(decision: Decision) -> str | BlockstoreError | None:
        rate.take()
        if fresh.is_over:
            return OLD_LOOK
        try:
            return _one(bucket, world, decision, directories[decision.ulid])
        except BlockstoreError as error:
            return error

    answers = list(zip(decisions, world.pool.map(one, decisions), strict=True))
    errors = [answer for _, answer in answers if isinstance(answer, BlockstoreError)]
    stops = Unavailable if go_on else (Unavailable, AccessDenied)
    if errors and len(errors) == len(answers) and isinstance(errors[0], stops):
        raise errors[0]
    return Carried(
        done=tuple(decision for decision, answer in answers if answer is None),
        dropped={decision.ulid: answer for decision, answer in answers if isinstance(answer, str)},
        failed={
            decision.ulid: str(answer)
            for decision, answer in answers
            if isinstance(answer, BlockstoreError)
        },
        denied=next((error for error in errors if isinstance(error, AccessDenied)), None),
    )


def _one(bucket: Bucket, world: World, decision: Decision, directory: Directory) -> str | None:
    """Carry out one decision; answers why it was dropped, if it was."""
    if decision.action is Action.WITHDRAW:
        changed = mark_changed(bucket, directory)
        if changed is None:
            withdraw_deletion(bucket, world, decision.ulid)
        return changed
    assert decision.action is Action.MARK, "removals are the Remover's"
    mark = DeletionMark(
        ulid=decision.ulid,
        deletion_time_s=world.clock.now_ms() // 1000,
        reason=decision.reason,
        details=decision.why,
        superseded_by=decision.superseded_by,
    )
    put_mark(bucket, world, mark)
    return None
