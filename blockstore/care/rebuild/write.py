"""Write the rebuilt index: the state, then the boundary, then an entry, so that a rebuild that
crashes in between can be finished.

Invariants (protocol 3.4):
- The new state is above every id that was ever seen. Its checkpoint exists before the boundary
  moves to it, and the boundary is directly below the first new entry.
- The boundary never moves back. Everything at or below it is void from then on, for every process:
  one that still has the old index finds the boundary above its version, or its payload refused,
  and starts again.
- Nothing is deleted here. Collection removes the old entries like all others below the boundary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from blockstore.bucket.api import Bucket
from blockstore.care.rebuild.plan import RebuildPlan, Way
from blockstore.errors import (
    AlreadyExists,
    BoundaryLost,
    Conflict,
    Invalid,
    ObjectMissing,
    PreconditionFailed,
)
from blockstore.index.boundary import Boundary, encode_boundary
from blockstore.index.change import Change, Done, Draft
from blockstore.index.checkpoint_write import renew_checkpoint, replace_checkpoint, write_checkpoint
from blockstore.index.entry import Operation
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.names import BOUNDARY, checkpoint_key
from blockstore.world import World

_NAMED = 1_000
"""At most this many of the blocks left out are named in the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """The result of a rebuild."""

    version: int
    """The newest version now."""
    boundary: int
    blocks: int


@dataclass(kw_only=True)
class Rebuild(Change):
    """The first entry of a rebuilt index. It changes nothing: it records the decisions."""

    operation: Operation = Operation.REBUILD
    commit: str
    base: int
    """The version of the state that the index begins with."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    message: str = ""

    def draft(self, state: State) -> Draft | Done:
        if state.version < self.base:
            raise Conflict(
                f"the index is at version {state.version}, expected {self.base} or later: another "
                "process is rebuilding it; try again when that has ended"
            )
        if state.version > self.base:
            return Done(version=self.base + 1)
        return Draft(parameters=self.parameters, message=self.message)


def rebuild(bucket: Bucket, world: World, plan: RebuildPlan, *, message: str = "") -> Rebuilt:
    """Carry a plan out.

    Raises Conflict if a person must decide first, or if another rebuild was faster. After any error
    plan again: the new plan finishes what was begun.
    """
    if plan.way is Way.FILL_IN:
        return _write_missing(bucket, world, plan)
    if plan.state is None:
        blocks = ", ".join(one.ulid for one in plan.stops) or "the table"
        raise Conflict(
            f"nothing was written, because a person must decide first about {blocks}: see the plan"
        )
    if plan.way is Way.RENEW and renew_checkpoint(bucket, plan.state) is None:
        raise Conflict(
            f"{checkpoint_key(plan.state.version)} of {bucket.url} exists already: another "
            "process is rebuilding this index; plan again when that has ended"
        )
    return _begin(bucket, world, plan, plan.state.version, message)


def _begin(bucket: Bucket, world: World, plan: RebuildPlan, version: int, message: str) -> Rebuilt:
    """Move the boundary to the checkpoint, and write the first entry above it."""
    _move_boundary(bucket, world, version)
    log = Log(bucket, world)
    state = log.poll()
    if state.version == version:
        change = Rebuild(
            commit=plan.commit or world.ids.ulid(),
            base=version,
            parameters=_parameters(plan),
            message=message,
        )
        log.commit(change)
        write_checkpoint(bucket, log.state)
    return Rebuilt(
        version=log.state.version, boundary=log.boundary.read(), blocks=len(log.state.blocks)
    )


def _write_missing(bucket: Bucket, world: World, plan: RebuildPlan) -> Rebuilt:
    """Write the boundary and the checkpoints again that are missing; every entry exists."""
    index = plan.index
    for state in index.folded.values():
        replace_checkpoint(bucket, state)
    if index.boundary is None:
        _move_boundary(bucket, world, index.base)
    log = Log(bucket, world)
    state = log.poll()
    if state.version == index.base and index.base:
        # The boundary is always below the latest entry, so there must be one above it.
        return _begin(bucket, world, plan, state.version, "")
    return Rebuilt(version=state.version, boundary=log.boundary.read(), blocks=len(state.blocks))


def _move_boundary(bucket: Bucket, world: World, to: int) -> None:
    """Raise the boundary, or write it if it is missing or corrupt."""
    boundary = Boundary(bucket, world)
    try:
        found = boundary.look()
    except BoundaryLost:
        _replace(bucket, to)
        return
    if found is None:
        try:
            bucket.put_if_absent(BOUNDARY, encode_boundary(to))
        except AlreadyExists:
            _move_boundary(bucket, world, to)
        return
    try:
        boundary.advance(to)
    except Invalid:
        # The store cannot refuse a stale write, so no other process moves the boundary there.
        bucket.put(BOUNDARY, encode_boundary(max(found, to)))


def _replace(bucket: Bucket, to: int) -> None:
    """Replace a corrupt boundary, unless another process does."""
    try:
        garbage = bucket.get(BOUNDARY)
        if bucket.refuses_stale_writes() is False:
            bucket.put(BOUNDARY, encode_boundary(to))
        else:
            bucket.put_if_match(BOUNDARY, encode_boundary(to), garbage.etag)
    except (ObjectMissing, PreconditionFailed):
        raise Conflict(
            f"{BOUNDARY} of {bucket.url} was changed by another process: stop all writers, and "
            "plan again"
        ) from None


def _parameters(plan: RebuildPlan) -> dict[str, object]:
    return {
        "way": str(plan.way),
        "blocks": len(plan.taken),
        "left_out": [one.ulid for one in plan.left][:_NAMED],
        "unsure": [one.ulid for one in plan.unsure][:_NAMED],
    }
