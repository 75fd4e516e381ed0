"""The part of a merge that only tables have whose rows have an identity: which rows are left out,
where those that are kept go, and what the commit has to check.

Rules (design 8.5):
- What is left out was found when the merge was planned. It stays hidden whatever comes in since.
- Former versions that ``row_history`` keeps go into a block of history of their own, which reads
  the chunks that hold some once more.
"""

from __future__ import annotations

from dataclasses import replace

from blockstore.compactor.merge import MergeTask
from blockstore.compactor.plan.jobs import PlannedJob
from blockstore.compactor.plan.observe import Observation
from blockstore.format.block import BlockKind
from blockstore.ids import Ids
from blockstore.names import object_key
from blockstore.rows.judged import Judged
from blockstore.scan.shadows import Rest


def rest_of(job: PlannedJob, seen: Observation) -> Rest:
    """What is left of the inputs."""
    kinds = {block.kind for block in job.inputs}
    assert len(kinds) == 1, "a job does not mix kinds"
    (kind,) = kinds
    return seen.shadows.rest_of(job.stream, kind, [block.ulid for block in job.inputs])


def with_versions(task: MergeTask, job: PlannedJob, seen: Observation) -> MergeTask:
    """The task, with what the result is and which rows are left out."""
    rest = rest_of(job, seen)
    inputs = tuple(
        replace(
            item,
            left_out={
                file.path: rest.left_out[key]
                for file in item.meta.chunks
                if (key := object_key(item.meta.ulid, file.path)) in rest.left_out
            },
        )
        for item in task.inputs
    )
    return replace(task, inputs=inputs, kind=rest.kind)


def former_versions(task: MergeTask, ids: Ids) -> MergeTask | None:
    """The task for the block of history; None if no row that it would hold is kept."""
    definition = task.definition
    kept_s = definition.properties.kept_history_s(definition.identity)
    inputs = tuple(item for item in task.inputs if item.left_out)
    if task.kind is BlockKind.HISTORY or not kept_s or not inputs:
        return None
    return replace(task, ulid=ids.ulid(), inputs=inputs, kind=BlockKind.HISTORY, former=True)


def judged(job: PlannedJob, seen: Observation) -> Judged | None:
    """What the commit has to check; None if nothing depends on older versions elsewhere."""
    if seen.definition.identity is None:
        return None
    newest = rest_of(job, seen).judged
    if newest is None:
        return None
    but = tuple(block.ulid for block in job.inputs)
    return Judged(blocks=seen.blocks, but=but, stream=job.stream, newest=newest)
