"""Complete merges that a process uploaded and died before it could commit: found again, and
committed.

Rules:
- Found by what they account for: a complete, unmarked ``index`` block above the horizon that the
  index does not have, whose parents are all live and together hold exactly its sources.
- Committed only if its rows are certainly those that readers see now. A merge does not record under
  which exceptions it was read, so it must contain every row of its parents, and none of them may
  have an exception now. Any other merge is done again, and cleaning removes what it left.
- Where rows have an identity: only a merge that is what its parents are, with the versions and row
  ids that the index gives them now. What hides nothing any more is judged again, and what left out
  former versions is done again, since their block may be missing.
- Only a merge of blocks that the caller saw as candidates: a shard sees those of its own streams,
  so no two shards take the same merge, and each commits in its own role, whose epoch fences it.
- The entry is an ordinary merge entry: the index checks that every parent is still live, so two
  processes that find the same block (or its maker, if it still lives) do no harm.
- On a table without an index there is nothing to find: a complete merge is visible by its age.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blockstore.compactor.merge.result import PRODUCER
from blockstore.compactor.plan.jobs import PlannedJob, Reason
from blockstore.compactor.plan.observe import Observation, observe
from blockstore.compactor.plan.skip import Labels
from blockstore.compactor.run.change import Compact
from blockstore.compactor.run.report import JobResult, Outcome
from blockstore.errors import Conflict, Fenced, HistoryReplaced, TableDropped
from blockstore.format.block import BlockKind, BlockMeta, StatValue, VisibleBy
from blockstore.format.definition import Definition
from blockstore.format.identity import VERSION, stored_columns
from blockstore.index.epochs import Held
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.lifecycle.listing import Directory, Listing
from blockstore.names import DELETION_MARK, META
from blockstore.table import Table

Range = tuple[StatValue | None, StatValue | None]


def resume(
    table: Table, *, seen: Observation | None = None, skip: Labels = (), held: Held | None = None
) -> tuple[JobResult, ...]:
    """Commit the complete merges, the largest first; return those that were committed.

    ``seen`` is what the caller has just seen of the table; if anything was committed it must look
    again. Raises Unavailable, Indeterminate, Fenced: what was committed by then stays, and the rest
    is found again.
    """
    if not table.indexed:
        return ()
    seen = seen or observe(table, skip=skip)
    done: list[JobResult] = []
    for meta in sorted(
        _left(table, seen.listing), key=lambda meta: (-len(meta.sources), meta.ulid)
    ):
        job = _job(meta, table.log.state, seen)
        if job is not None and (committed := _committed(table, meta, job, held)) is not None:
            done.append(committed)
    return tuple(done)


def _left(table: Table, listing: Listing) -> Iterator[BlockMeta]:
    """The complete merges that the index does not have.

    Level-1 blocks that were merged away are many; their own source identifies them, so they are not
    read.
    """
    state = table.log.state
    wanted = {
        ulid for ulid, directory in listing.directories.items() if _is_unknown(directory, state)
    }
    wanted -= set(state.accounted.held(wanted))
    if not wanted:
        return
    for found in table.catalog.look(listing, skip=lambda ulid: ulid not in wanted).found.values():
        meta = found.meta
        if meta is None or found.damage is not None or found.mark is not None:
            continue
        if meta.producer == PRODUCER and meta.visible_by is VisibleBy.INDEX and meta.parents:
            yield meta


def _is_unknown(directory: Directory, state: State) -> bool:
    if META not in directory.objects or DELETION_MARK in directory.objects:
        return False
    return directory.ulid not in state.blocks and not state.below_horizon(directory.ulid)


def _job(meta: BlockMeta, state: State, seen: Observation) -> PlannedJob | None:
    """The merge as a job, if it may be committed as it is."""
    found = seen.candidates.get_all(parent.ulid for parent in meta.parents)
    offered = {ulid: block for ulid, block in found.items() if not block.no_compact}
    live = state.blocks.get_all(parent.ulid for parent in meta.parents)
    if len(live) != len(meta.parents) or not live.keys() <= offered.keys():
        return None
    parents = [live[parent.ulid] for parent in meta.parents]
    definition = state.definition
    if (
        any(block.excepted for block in parents)
        or sum(block.meta.rows for block in parents) != meta.rows
        or {source for block in parents for source in block.meta.sources} != set(meta.sources)
        or any(block.meta.stream != meta.stream for block in parents)
        or max(block.meta.revision for block in parents) > meta.revision
        or (definition.sort_by, definition.time_column) != (meta.sort_by, meta.time_column)
        or definition.id_of(meta.schema) != definition.schema_id
        or any(block.meta.kind is not meta.kind for block in parents)
        or not _has_their_versions(meta, parents, definition)
    ):
        return None
    return PlannedJob(
        reason=Reason.RESUME,
        details=f"the merge of {len(parents)} blocks was uploaded before, and not committed",
        stream=meta.stream,
        inputs=tuple(offered[ulid] for ulid in sorted(live)),
        kind=meta.kind,
    )


def _has_their_versions(
    meta: BlockMeta, parents: Sequence[LiveBlock], definition: Definition
) -> bool:
    """Whether the merge has the lowest and highest version and row id of its parents: a rebuilt
    index may give them others than they had when they were merged."""
    if definition.identity is None:
        return True
    for name in stored_columns(definition.identity):
        found = _stored(meta, name)
        if found is None or found != _hull([_range(block, name) for block in parents]):
            return False
    return True


def _stored(meta: BlockMeta, name: str) -> Range | None:
    """The bounds of a column that the chunks of a block have."""
    stats = [chunk.columns.get(name) for chunk in meta.chunks]
    return _hull([None if one is None else (one.min, one.max) for one in stats])


def _range(block: LiveBlock, name: str) -> Range | None:
    """The bounds of a column of a live block, whose rows may have it from the index; None where
    they are not known."""
    meta = block.meta
    if meta.level > 1:
        return _stored(meta, name)
    if name == VERSION:
        return block.version, block.version
    if meta.kind is BlockKind.PLAIN:
        return block.first_row_id, block.first_row_id + meta.rows - 1
    new = any(chunk.columns[name].nulls for chunk in meta.chunks if name in chunk.columns)
    return None if new else _stored(meta, name)


def _hull(ranges: Sequence[Range | None]) -> Range | None:
    """The bounds of all; None if some are not known."""
    lows = [one[0] for one in ranges if one is not None and isinstance(one[0], int)]
    highs = [one[1] for one in ranges if one is not None and isinstance(one[1], int)]
    if not ranges or len(lows) != len(ranges) or len(highs) != len(ranges):
        return None
    return min(lows), max(highs)


def _committed(
    table: Table, meta: BlockMeta, job: PlannedJob, held: Held | None
) -> JobResult | None:
    change = Compact(
        commit=table.world.ids.ulid(),
        block=meta,
        read={block.ulid: frozenset() for block in job.inputs},
        read_version=table.log.state.version,
        identity=table.log.state.definition.identity,
        parameters={"reason": str(job.reason), "details": job.details},
        role=None if held is None else held.role,
        epoch=None if held is None else held.epoch,
    )
    try:
        committed = table.log.commit(change)
    except (Fenced, HistoryReplaced):
        raise
    except (Conflict, TableDropped):
        return None
    return JobResult(
        job=job,
        outcome=Outcome.COMMITTED,
        block=meta.ulid,
        version=committed.version,
        rows=meta.rows,
        bytes=meta.bytes,
        chunks=len(meta.chunks),
    )
