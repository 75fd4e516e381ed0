"""Placing and withdrawing the marks that a cleaning pass decided on.

Rules:
- A decision is dropped if its listing is older than ``delete_delay``/2, or if its mark has changed
  since it was listed.
- Each is idempotent: a mark that already exists, or is already gone, is as it should be.
- A directory that fails is reported and stops no other. A store that responds for none of them, or
  refuses all, stops the pass.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOut:
    """What became of the decisions."""

    done: tuple[Decision, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    denied: AccessDenied | None = None
    """The first failure for lack of rights: a later pass does not fix that."""


def carry_out(
    bucket: Bucket,
    world: World,
    decisions: Sequence[Decision],
    directories: Mapping[str, Directory],
    *,
    rate: Rate,
    fresh: Freshness,
    go_on: bool = False,
) -> CarriedOut:
    """Place and withdraw marks, in parallel.

    ``go_on`` is for a caller that has other work and checks ``denied`` afterwards.

    Raises:
        Unavailable: The store responded for none of them.
        AccessDenied: None was allowed, and ``go_on`` is false.
    """

    def one(decision: Decision) -> str | BlockstoreError | None:
        rate.take()
        if fresh.is_over:
            return OLD_LOOK
        try:
            return _one(bucket, world, decision, directories[decision.ulid])
        except BlockstoreError as error:
            return error

    results = list(zip(decisions, world.pool.map(one, decisions), strict=True))
    errors = [result for _, result in results if isinstance(result, BlockstoreError)]
    stops = Unavailable if go_on else (Unavailable, AccessDenied)
    if errors and len(errors) == len(results) and isinstance(errors[0], stops):
        raise errors[0]
    return CarriedOut(
        done=tuple(decision for decision, result in results if result is None),
        dropped={decision.ulid: result for decision, result in results if isinstance(result, str)},
        failed={
            decision.ulid: str(result)
            for decision, result in results
            if isinstance(result, BlockstoreError)
        },
        denied=next((error for error in errors if isinstance(error, AccessDenied)), None),
    )


def _one(bucket: Bucket, world: World, decision: Decision, directory: Directory) -> str | None:
    """Carry out one decision; return why it was dropped, or None."""
    if decision.action is Action.WITHDRAW:
        changed = mark_changed(bucket, directory)
        if changed is None:
            withdraw_deletion(bucket, world, decision.ulid)
        return changed
    assert decision.action is Action.MARK, "the Remover removes"
    mark = DeletionMark(
        ulid=decision.ulid,
        deletion_time_s=world.clock.now_ms() // 1000,
        reason=decision.reason,
        details=decision.why,
        superseded_by=decision.superseded_by,
    )
    put_mark(bucket, world, mark)
    return None
