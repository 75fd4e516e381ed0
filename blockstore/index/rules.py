"""Steps 1 to 3 of a commit: done already, fenced or condemned, in conflict? Pure.

Only a state all of whose entries were checked against a boundary read after them may be used here
(protocol 3.3).

1. Done: the commit id is among those kept; the job's batch is committed; for append and discover,
   block by block, all sources are accounted. Blocks are tested one after the other, each counting
   as accounted for the next.
2. Fenced: the role's epoch is another than mine. Condemned: an ``index`` block at or below the
   horizon. An ``age`` block there is left to discovery by an append, and still added by a
   discovery.
3. Conflict: a source that is accounted otherwise than through blocks that this operation removes; a
   block to remove or except that is not live with the exceptions that were read; a source to
   account for that is accounted; a tag that is set on another version; a schema that the definition
   does not know.

4. A table that is dropped takes nothing but what ends that, and the compactor's own entries: all
   else is TableDropped.

What only one operation can judge (predicates, an altered definition) is in its own
``Change.draft``.
"""

from __future__ import annotations

from dataclasses import replace

from blockstore.errors import BlockCondemned, Conflict, Fenced, Invalid
from blockstore.format.block import BlockKind, BlockMeta, Job, VisibleBy
from blockstore.format.identity import Identity, Key
from blockstore.format.names_now import time_column_of
from blockstore.index import ulids
from blockstore.index.added import AddedBlock
from blockstore.index.batches import STREAM
from blockstore.index.change import Append, Change, Done, Draft, Left
from blockstore.index.entry import Operation
from blockstore.index.lives import check_there
from blockstore.index.state import State

Plan = tuple[Draft, dict[str, Left]]
"""What to write, and the blocks that stay out of it."""

_WHILE_DROPPED = frozenset(
    {
        Operation.CREATE,
        Operation.UNDROP,
        Operation.CLEAR,
        Operation.EPOCH,
        Operation.HORIZON,
        Operation.UNTAG,
        Operation.REBUILD,
    }
)
_EMPTYING = frozenset({Operation.CREATE, Operation.CLEAR})
"""They remove all blocks of a table, whatever versions of rows are in them."""

_BLOCK_BY_BLOCK = frozenset({Operation.APPEND, Operation.DISCOVER})


def decide(state: State, change: Change) -> Plan | Done:
    """What ``change`` has to write on top of ``state``.

    Raises Conflict (Fenced, BlockCondemned), Invalid or TableDropped.
    """
    entry = state.commits.find(change.commit)
    if entry is not None:
        return Done(version=entry)
    batch = batch_done(state, change.job, ordered=change.ordered)
    if batch is not None:
        return batch
    _check_epoch(state, change)
    if change.operation not in _WHILE_DROPPED and not _takes_batch(change):
        check_there(state)
    draft = change.draft(state)
    if isinstance(draft, Done):
        return draft
    draft = replace(draft, add=tuple(_with_schema_id(state, draft, block) for block in draft.add))
    _check_touched(state, draft)
    _check_kinds(state, draft, change.operation)
    left: dict[str, Left] = {}
    if change.operation in _BLOCK_BY_BLOCK:
        wanted = draft.add
        draft = replace(draft, add=_admitted(state, draft, change.operation, left))
        if wanted and not draft.add:
            return Done(blocks=tuple(left), left=left)
    else:
        _check_sources(state, draft, change.operation)
    _check_tags(state, draft)
    return draft, left


def batch_done(state: State, job: Job | None, *, ordered: bool) -> Done | None:
    """What is known of a job's batch that was committed; None where it was not. Raises Invalid for
    one that comes too late to be known, or out of order."""
    app = None if job is None else state.batches.get(job.app)
    if job is not None and state.forgot(job):
        raise Invalid(
            f"upload {job.app!r} is at or below the table's floor {state.floor}, where it is no "
            "longer known whether it was committed: look at the table, and upload again what "
            "is missing"
        )
    if job is None or app is None:
        return None
    if job.batch in app:
        written = app.written(job.batch)
        return Done() if written is None else Done(version=written.version, blocks=written.blocks)
    if job.batch > app.last or not ordered:
        return None
    if job.app.startswith(STREAM):
        return Done()
    raise Invalid(
        f"job {job.app!r} has committed batch {app.last} and never batch {job.batch}, expected a "
        "higher one: number batches upwards, or pass ordered=False for a backfill"
    )


def _takes_batch(change: Change) -> bool:
    """Whether it adds nothing, and only takes the batch of a job, so that no attempt of it can
    commit from then on."""
    return isinstance(change, Append) and change.job is not None and not change.blocks


def _check_epoch(state: State, change: Change) -> None:
    if change.role is None:
        return
    holder = state.epochs.get(change.role)
    if holder != change.epoch:
        found = "no process" if holder is None else f"epoch {holder[0]} (commit {holder[1]})"
        mine = (
            "no epoch"
            if change.epoch is None
            else f"epoch {change.epoch[0]} (commit {change.epoch[1]})"
        )
        raise Fenced(
            f"role {change.role!r} is held by {found} at version {state.version}, and this "
            f"process holds {mine}: stop; another process has taken over"
        )


def _with_schema_id(state: State, draft: Draft, block: AddedBlock) -> AddedBlock:
    """The block as entries hold it: its schema named by the definition's id, or 0 if the definition
    has none.

    The schema's bytes decide: of a table that was made again the same id means another schema.
    """
    meta = block.meta
    if not meta.schema:
        return block
    table = draft.table or state.definition
    return replace(block, meta=replace(meta, schema=b"", schema_id=table.id_of(meta.schema) or 0))


def _admitted(
    state: State, draft: Draft, operation: Operation, left: dict[str, Left]
) -> tuple[AddedBlock, ...]:
    """The blocks that may enter; the others go to ``left``."""
    admitted = []
    taken: set[str] = set()
    for block in draft.add:
        reason = _reason_to_leave(state, draft, block.meta, taken, operation)
        if reason is None:
            admitted.append(block)
            taken.update(block.meta.sources)
        else:
            left[block.ulid] = reason
    return tuple(admitted)


def _reason_to_leave(
    state: State, draft: Draft, meta: BlockMeta, taken: set[str], operation: Operation
) -> Left | None:
    held = len({*state.accounted.held(meta.sources), *taken.intersection(meta.sources)})
    if held:
        return Left.ACCOUNTED if held == len(meta.sources) else Left.QUARANTINED
    discovering = operation is Operation.DISCOVER
    table = draft.table or state.definition
    late = next((ulid for ulid in (meta.ulid, *meta.sources) if state.below_floor(ulid)), None)
    if late is not None:
        if discovering:
            return Left.QUARANTINED
        raise Invalid(
            f"block {meta.ulid} accounts for {late}, which is at or below the table's floor "
            f"{state.floor}: it comes too late to be distinguished from a write that was removed; "
            "let a person decide with repair --adopt"
        )
    if discovering and _is_version(table.identity, meta):
        return Left.QUARANTINED
    if time_column_of(meta, table) != table.time_column:
        if discovering:
            return Left.QUARANTINED
        raise Conflict(
            f"block {meta.ulid} has the time column {meta.time_column!r}, and the table has "
            f"{table.time_column!r}: write its rows again under the table's definition"
        )
    if discovering and meta.schema_id not in table.schemas:
        return Left.QUARANTINED
    _check_schema(state, draft, meta)
    if not state.below_horizon(meta.ulid):
        return None
    if meta.visible_by is VisibleBy.INDEX:
        raise _condemned(state, meta)
    return None if discovering else Left.DEFERRED


def _is_version(identity: Identity | None, meta: BlockMeta) -> bool:
    """Whether rows of a block that only a listing shows would be versions of rows, in an order that
    is not known."""
    if identity is None:
        return False
    return isinstance(identity, Key) or meta.level > 1 or meta.kind is not BlockKind.PLAIN


def _condemned(state: State, meta: BlockMeta) -> BlockCondemned:
    return BlockCondemned(
        f"block {meta.ulid} is at or below the table's horizon {state.horizon} (version "
        f"{state.version}) and may be removed at any time: upload its rows again under a new "
        "ULID that keeps its sources"
    )


def _check_sources(state: State, draft: Draft, operation: Operation) -> None:
    if not draft.add:
        return
    removed = state.blocks.get_all(draft.remove).values()
    freed = {source for block in removed for source in block.meta.sources}
    restoring = operation is Operation.RESTORE and state.definition.identity is None
    left_live = state.blocks.changed(draft.remove, ()).sources() if restoring else ulids.EMPTY
    taken: set[str] = set()
    for added in draft.add:
        meta = added.meta
        if restoring:
            held = [
                source for source in meta.sources if ulids.position(left_live, source) is not None
            ]
        else:
            held = state.accounted.held(source for source in meta.sources if source not in freed)
        held += taken.intersection(meta.sources)
        if held:
            raise Conflict(
                f"block {meta.ulid} accounts for {held[0]}, which at version {state.version} is "
                f"already accounted for by a block that this {operation} does not remove: read the "
                "table again and plan again"
            )
        taken.update(meta.sources)
        _check_schema(state, draft, meta)
        if not restoring and state.below_horizon(meta.ulid):
            raise _condemned(state, meta)


def _check_schema(state: State, draft: Draft, meta: BlockMeta) -> None:
    table = draft.table or state.definition
    if meta.schema_id not in table.schemas:
        raise Conflict(
            f"block {meta.ulid} has a schema that the definition at version {state.version} does "
            f"not know, expected one of its {len(table.schemas)}: open the table again "
            "and write again"
        )


def _check_touched(state: State, draft: Draft) -> None:
    brought = {block.ulid for block in draft.add}
    touched = {*draft.remove, *(draft.excepts.keys() - brought), *draft.read}
    live = state.blocks.get_all(touched)
    for ulid in sorted(touched):
        block = live.get(ulid)
        if block is None or (ulid in draft.read and draft.read[ulid] != block.excepted):
            raise changed(state, ulid, "another operation")
    held = state.accounted.held(draft.account)
    if held:
        raise Conflict(
            f"source {held[0]} is accounted at version {state.version}, and was unknown to the "
            "index when this operation was planned: read the table again and plan again"
        )


def changed(state: State, ulid: str, by: str) -> Conflict:
    """The error for a block that is gone, or hides other sources than were read;

    ``by`` names the operation that did it.
    """
    block = state.blocks.get(ulid)
    found = "is not live" if block is None else f"hides {len(block.excepted)} sources"
    did = "removed it" if block is None else "hid some after it was read"
    return Conflict(
        f"block {ulid} {found} at version {state.version}, and this operation needs it as it was: "
        f"{by} {did}; read the table again and plan again",
        block=ulid,
    )


def _check_kinds(state: State, draft: Draft, operation: Operation) -> None:
    """What the fold would refuse (``fold.py``), and a plain write where every row is a version."""
    table = draft.table or state.definition
    if table.identity is not None and operation not in {Operation.COMPACT, *_EMPTYING}:
        _check_taken(state, draft, operation)
    for added in draft.add:
        meta = added.meta
        if meta.kind is not BlockKind.PLAIN and table.identity is None:
            raise Conflict(
                f"block {meta.ulid} holds {meta.kind} of rows, and the rows of this table have no "
                "identity: write the rows again as they are"
            )
        if table.identity is not None and meta.level > 1 and operation is Operation.APPEND:
            raise Invalid(
                f"block {meta.ulid} was made of others and does not carry the versions of its rows "
                "that this table has: write the rows again"
            )
        if (
            meta.kind is BlockKind.PLAIN
            and meta.level == 1
            and isinstance(table.identity, Key)
            and operation is not Operation.DISCOVER
        ):
            raise Invalid(
                f"block {meta.ulid} holds rows that are no versions, and this table has the key "
                f"{', '.join(table.identity.columns)}: write them with upsert or insert"
            )


def _check_taken(state: State, draft: Draft, operation: Operation) -> None:
    """Where rows have versions, blocks only expire; those of changes only if no older version of a
    row is uncovered."""
    removed = state.blocks.get_all(draft.remove).values()
    uncovers = draft.uncovers and any(block.meta.kind is BlockKind.CHANGES for block in removed)
    expires = operation is Operation.EXPIRE and not uncovers
    returns = any(block.version is not None for block in draft.add)
    if draft.excepts or returns or (draft.remove and not expires):
        raise Invalid(
            f"this {operation} removes, hides or brings back complete blocks, and the rows of this "
            "table have versions, which blocks hide from one another: delete or update the rows"
        )


def _check_tags(state: State, draft: Draft) -> None:
    for name, version in draft.tags.items():
        if version is not None and state.tags.get(name, version) != version:
            raise Conflict(
                f"tag {name!r} names version {state.tags[name]}, not {version}: untag it first, or "
                "choose another name"
            )
