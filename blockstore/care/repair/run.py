"""Carry a repair out, step by step. A step that fails does not stop the others.

Rule: every step first checks whether it is done, so a repair that died is run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from blockstore.bucket.api import Bucket
from blockstore.care.marks.quarantine import can_merge, release
from blockstore.care.repair.adopt import adopt
from blockstore.care.repair.by_age import ByAgeResult, raise_revision, replace_damaged
from blockstore.care.repair.leaves import write_leaf
from blockstore.care.repair.replacement import upload_in_place_of
from blockstore.care.repair.step import RepairPlan, Step, StepKind
from blockstore.care.repair.target import Target
from blockstore.care.survey import REPAIR
from blockstore.care.verify.deep import check_block
from blockstore.errors import AccessDenied, BlockstoreError, Conflict, Corrupt, Invalid, NotFound
from blockstore.index.checkpoint_write import replace_checkpoint
from blockstore.names import checkpoint_key
from blockstore.operations.append import publish
from blockstore.operations.rewrite import rewrite

_RELEASED = (
    "merges may take it again; a compactor that found the damage itself does so within an hour"
)
_NO_MARK = "the mark is gone, or is a person's now: nothing to do"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of a step."""

    step: Step
    summary: str
    failed: bool = False
    ulid: str | None = None
    """The block that now has the rows."""
    version: int | None = None
    ready_ms: int | None = None
    """When to run the repair again, by the store's clock."""


def carry_out(
    bucket: Bucket, target: Target | None, plan: RepairPlan, *, wait: bool = False
) -> Iterator[Done]:
    """Run every step of the plan that changes something, and yield its result.

    A step that is refused, or for which the table has changed meanwhile, is reported, and the
    others continue. Raises Unavailable, Indeterminate and AccessDenied; run the repair again after
    that.
    """
    for step in plan.steps:
        if not step.acts:
            continue
        try:
            yield _carry_out(bucket, target, step, wait=wait)
        except AccessDenied:
            raise  # it would fail every step
        except (Conflict, NotFound, Corrupt, Invalid) as error:
            yield Done(step=step, summary=_failed(error), failed=True)


def _carry_out(bucket: Bucket, target: Target | None, step: Step, *, wait: bool) -> Done:
    if step.stale is not None:
        step.stale.remove(bucket)
        return Done(step=step, summary="removed")
    if step.kind is StepKind.CHECKPOINT:
        return _checkpoint(bucket, step)
    if step.kind is StepKind.LEAF:
        write_leaf(bucket, step.object, step.copies)
        return Done(step=step, summary="written")
    assert target is not None, "only a table that can be opened has steps on its blocks"
    if step.put_back is not None:
        objects = step.put_back.carry_out(bucket)
        if not step.put_back.lost and can_merge(
            check_block(bucket, target.world, None, step.object)
        ):
            release(
                bucket, target.world, step.object
            )  # a restore may make it live again, and then it can be merged
        return Done(step=step, summary=f"{objects:,} objects restored", ulid=step.object)
    if step.segments is not None:
        count = step.segments.carry_out(bucket)
        return Done(step=step, summary=f"{count:,} hashes stored again", ulid=step.object)
    if step.kind is StepKind.UNMARK:
        summary = _RELEASED if release(bucket, target.world, step.object) else _NO_MARK
        return Done(step=step, summary=summary, ulid=step.object)
    assert step.files is not None, "a step on a block has its files"
    if step.kind is StepKind.REWRITE:
        return _rewrite(target, step)
    if step.kind is StepKind.ADOPT:
        block = adopt(target, step.files)
        summary = "adopted before" if block.already else "adopted"
        named = (
            f" as block {block.ulid}, version {block.version}"
            if block.ulid
            else ": no rows were left to adopt"
        )
        return Done(step=step, summary=summary + named, ulid=block.ulid, version=block.version)
    if target.log is not None:
        return _publish(target, step)
    if step.kind is StepKind.RAISE:
        return _by_age(step, raise_revision(target, step.files))
    return _by_age(step, replace_damaged(target, step.files, wait=wait))


def _checkpoint(bucket: Bucket, step: Step) -> Done:
    assert step.version is not None, "a checkpoint has a version"
    assert step.state is not None, "and its state"
    replace_checkpoint(bucket, step.state)
    return Done(step=step, summary=f"{checkpoint_key(step.version)} written", version=step.version)


def _rewrite(target: Target, step: Step) -> Done:
    files = step.files
    assert files is not None, "a rewrite has files"
    schema = target.access.log.state.definition.schema
    done = rewrite(
        target.access,
        [step.object],
        rows=lambda block: files.rows(schema, block.excepted),
        reason=REPAIR,
        message=f"repair of block {step.object}"
        + (f", {files.rows_lost:,} rows lost" if files.rows_lost else ""),
    )
    made = done.rewritten.get(step.object)
    summary = (
        f"replaced by block {made}, version {done.version}"
        if made
        else f"no rows of it were left: removed by version {done.version}"
    )
    return Done(step=step, summary=summary, ulid=made, version=done.version)


def _publish(target: Target, step: Step) -> Done:
    """Upload a block that no entry names again, and publish it; for a table with an index."""
    assert step.files is not None, "an upload has files"
    made = upload_in_place_of(target, step.files, revision=step.files.meta.revision + 1)
    if made is None:
        return Done(step=step, summary="no rows of it are left; mark it for deletion")
    block = publish(target.bucket, target.world, target.log, made)
    summary = f"uploaded again as block {block.ulid}"
    summary += f", version {block.version}" if block.published else "; readers will discover it"
    return Done(step=step, summary=summary, ulid=block.ulid, version=block.version)


def _by_age(step: Step, done: ByAgeResult) -> Done:
    if done.held:
        return Done(step=step, summary="other blocks hold its rows now: nothing to do")
    if done.hidden:
        return Done(step=step, summary="it was hidden or removed meanwhile: nothing to do")
    if done.empty:
        return Done(step=step, summary="no rows of it are left; mark it for deletion")
    if done.ulid is None:
        summary = "kept out of merges; its rows are read when running merges are listed"
        return Done(step=step, summary=summary, ready_ms=done.ready_ms)
    summary = f"replaced by block {done.ulid}; check later whether readers choose it"
    return Done(step=step, summary=summary, ulid=done.ulid, ready_ms=done.ready_ms)


def _failed(error: BlockstoreError) -> str:
    why = "" if isinstance(error, Invalid) else ", the table has changed since it was checked"
    return f"not done{why}: {error}"
