"""The fold: the state after an entry, from the state before it. Pure, total, and the same
everywhere.

Rules (protocol 3.3):
- An entry that was not written on top of the one below is void (``chain.py``): its version is the
  one before it, under the next number, and its commit id is not among those kept.
- ``remove``, ``add``, ``account`` and ``except`` apply in that order, whatever the operation is
  called.
- An entry that removes what is not live, adds a source that is accounted otherwise than through
  blocks that it removes, or moves back what only rises is ``Corrupt``: it cannot occur unless a
  rule was broken when it was written.
- Blocks of one entry are taken one after the other, each source of one counting as accounted for
  the next.
- ``restore`` brings sources back: they need only be absent from the blocks that it leaves live.
- An added block without ``version`` and ``first_row_id`` of its own has the entry's id, and the
  next rows.
- Where rows have an identity an entry adds one level-1 block of changes of each stream at most: a
  row has one version for each entry.
- ``drop``, ``undrop``, ``clear`` and a later ``create`` are known by name (``dropped.py``): nothing
  is added to a table while it is dropped, and the one that is created after it has only what its
  own entry says of schemas, blocks, tags and batches.
- At a new floor every accounted source at or below it is forgotten that neither ``keep`` nor a live
  block names, and, once the table requires it, every upload of a gateway at or below it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NoReturn

import immutables

from blockstore.errors import Corrupt, Invalid
from blockstore.format.block import BlockKind, BlockMeta
from blockstore.format.definition import Definition
from blockstore.format.features import UPLOADS
from blockstore.index import ulids
from blockstore.index.added import AddedBlock, SourcesFile
from blockstore.index.batches import AppBatches, Batches, Written, forget_uploads, is_forgotten
from blockstore.index.blocks import Blocks
from blockstore.index.dropped import Dropped
from blockstore.index.entry import Entry, Operation
from blockstore.index.rows import LiveBlock
from blockstore.index.sources import Sources
from blockstore.index.state import State
from blockstore.index.touches import Touches, touched_by

VOID_KEPT = 1_000
"""So many void entries a state remembers: far more than any disaster leaves above the boundary."""


def fold(state: State, entry: Entry) -> State:
    """The state at ``entry.id``.

    Raises Corrupt, naming the entry, if it cannot follow on ``state``.
    """
    if entry.id != state.version + 1:
        _refuse(entry, f"follows on version {state.version}", f"entry {state.version + 1}")
    if not entry.follows(state.last):
        return _void(state, entry)
    table = entry.table or state.table
    if table is None:
        _refuse(entry, "defines no table", "a definition in the first entry")
    again = _check_life(state, entry)
    if (
        entry.table is not None
        and state.table is not None
        and not again
        and not state.table.schemas.keys() <= table.schemas.keys()
    ):
        _refuse(entry, "drops a schema", "a definition that keeps all schemas of the one before")
    removed = _removed(state, entry)
    added = [_live(state, entry, block, first, removed) for block, first in _row_ids(state, entry)]
    _check_new(state, entry, added, removed)
    for block in added:
        if block.meta.schema_id not in table.schemas:
            _refuse(
                entry,
                f"adds block {block.ulid} with schema {block.meta.schema_id}",
                f"one of the schemas of the definition, {sorted(table.schemas)}",
            )
    _check_kinds(entry, table, added)
    blocks = _excepted(state.blocks.changed(removed, added), entry)
    tags = _tags(state, entry)
    if (again or entry.operation == Operation.CLEAR) and (len(blocks) or tags):
        _refuse(entry, "keeps blocks or tags of a dropped table", "an entry that removes them all")
    time_ms = max(state.time_ms, entry.time)
    requires = (
        state.requires if not entry.requires else tuple(sorted({*state.requires, *entry.requires}))
    )
    return State(
        version=entry.id,
        time_ms=time_ms,
        blocks=blocks,
        accounted=_accounted(state, entry, added, blocks),
        commits=state.commits.added(entry.commit, entry.id, time_ms),
        epochs=_epochs(state, entry),
        batches=_batches(
            immutables.Map() if again else state.batches, state.floor, entry, UPLOADS in requires
        ),
        tags=tags,
        horizon=_risen(entry, "horizon", state.horizon, entry.horizon),
        floor=_risen(entry, "floor", state.floor, entry.floor),
        next_row_id=state.next_row_id + entry.rows,
        table=table,
        touches=_touches(state, entry, table, added, removed),
        requires=requires,
        last=entry.link_after(state.last),
        created=entry.id if again else state.created,
        first_row_id=state.next_row_id if again else state.first_row_id,
        dropped=_dropped(state, entry, time_ms),
        void=state.void,
    )


def _check_life(state: State, entry: Entry) -> bool:
    """Whether the entry creates a table where one was dropped. Refuses what cannot be done to a
    dropped table, or to one that is there."""
    operation, dropped = entry.operation, state.dropped
    needs_dropped = operation in (Operation.UNDROP, Operation.CLEAR)
    if operation == Operation.DROP and dropped is not None:
        _refuse(entry, "drops a dropped table", "one that is there")
    if needs_dropped and dropped is None:
        _refuse(entry, "is about a dropped table", "a drop before it")
    if operation == Operation.UNDROP and dropped is not None and dropped.cleared is not None:
        _refuse(entry, "brings a cleared table back", "one that has its blocks")
    if dropped is not None and entry.add:
        _refuse(entry, "adds blocks to a dropped table", "none")
    if operation != Operation.CREATE or state.version == 0:
        return False
    if dropped is None or entry.table is None:
        _refuse(entry, "creates a table that is there", "one that was dropped, and a definition")
    return True


def _dropped(state: State, entry: Entry, time_ms: int) -> Dropped | None:
    before = state.dropped
    match entry.operation:
        case Operation.DROP:
            return Dropped(version=entry.id, time_ms=time_ms)
        case Operation.UNDROP | Operation.CREATE:
            return None
        case Operation.CLEAR if before is not None and before.cleared is None:
            return replace(before, cleared=entry.id)
    return before


def derived_sources(meta: BlockMeta, removed: Mapping[str, LiveBlock]) -> tuple[str, ...] | None:
    """The sources that an entry need not name, or None if it must.

    They are the block's own ULID, or, for a block with parents, the union of theirs, all removed by
    the same entry, with itself where it is ``own``.
    """
    if not meta.parents:
        return (meta.ulid,)
    if any(parent.ulid not in removed for parent in meta.parents):
        return None
    union = {source for parent in meta.parents for source in removed[parent.ulid].meta.sources}
    return tuple(sorted(union | {meta.ulid} if meta.own else union))


def _touches(
    state: State,
    entry: Entry,
    table: Definition,
    added: list[LiveBlock],
    removed: Mapping[str, LiveBlock],
) -> Touches | None:
    if table.identity is None:
        return None
    before = state.touches or Touches(since=state.version)
    brought = (block.meta for block in added)
    gone = (block.meta for block in removed.values())
    return before.added(entry.id, touched_by(entry, brought, gone))


def _check_kinds(entry: Entry, table: Definition, added: list[LiveBlock]) -> None:
    """Changes are versions of rows that have an identity, and a version is one entry's."""
    odd = [block for block in added if block.meta.kind is not BlockKind.PLAIN]
    if odd and table.identity is None:
        _refuse(
            entry,
            f"adds block {odd[0].ulid} of {odd[0].meta.kind}",
            "none in a table whose rows have no identity",
        )
    streams = Counter(block.meta.stream for block in odd if block.meta.level == 1)
    stream, most = max(streams.items(), key=lambda one: one[1], default=(None, 0))
    if stream is not None and most > 1:
        _refuse(
            entry,
            f"adds the changes of {most} writes of rows with the labels {dict(stream.labels)}",
            "those of one, so that each version of a row is one row",
        )


def _void(state: State, entry: Entry) -> State:
    if state.version == 0:
        _refuse(entry, "names an entry below it", "none below the first")
    return replace(
        state,
        version=entry.id,
        commits=state.commits.added(void_commit(entry.id), entry.id, state.time_ms),
        last=entry.link_after(state.last),
        void=(*state.void, entry.id)[-VOID_KEPT:],
    )


def void_commit(entry: int) -> str:
    """What takes the place of the commit id of a void entry: no operation has it."""
    return f"{entry:026d}"


def _refuse(entry: Entry, found: str, expected: str) -> NoReturn:
    raise Corrupt(
        f"index entry {entry.id} ({entry.operation}, commit {entry.commit}) {found}, expected "
        f"{expected}: a rule was broken when it was written; stop all writers and compare the "
        "index with a copy"
    )


def _removed(state: State, entry: Entry) -> dict[str, LiveBlock]:
    live = state.blocks.get_all(entry.remove)
    for ulid in entry.remove:
        if ulid not in live:
            _refuse(
                entry, f"removes block {ulid}, which is not live", "blocks that are live before it"
            )
    return {ulid: live[ulid] for ulid in entry.remove}


def _row_ids(state: State, entry: Entry) -> Iterable[tuple[AddedBlock, int]]:
    """Each added block and its first row id."""
    following = state.next_row_id
    if entry.rows and entry.first_row_id != following:
        _refuse(entry, f"starts its rows at {entry.first_row_id}", f"row {following}")
    for block in entry.add:
        if block.first_row_id is None:
            yield block, following
            following += block.meta.rows
        elif (
            block.first_row_id + block.meta.rows > state.next_row_id
            or (block.version or 0) >= entry.id
        ):
            _refuse(
                entry,
                f"brings block {block.ulid} back with rows or a version of the future",
                "earlier ones",
            )
        else:
            yield block, block.first_row_id


def _live(
    state: State,
    entry: Entry,
    block: AddedBlock,
    first_row_id: int,
    removed: Mapping[str, LiveBlock],
) -> LiveBlock:
    meta = block.meta
    if isinstance(block.sources, SourcesFile):
        _refuse(
            entry,
            f"adds block {meta.ulid}, whose list of sources was not loaded",
            "all sources in memory",
        )
    if block.sources is None:
        sources = derived_sources(meta, removed)
        if sources is None:
            _refuse(
                entry,
                f"names no sources for block {meta.ulid}, whose parents it does not remove",
                "them",
            )
        if sources != meta.sources:
            try:
                meta = replace(meta, sources=sources)
            except Invalid as error:
                _refuse(
                    entry,
                    f"adds a block that contradicts itself ({error})",
                    "a block of the format",
                )
    return LiveBlock(meta=meta, version=block.version or entry.id, first_row_id=first_row_id)


def _check_new(
    state: State, entry: Entry, added: list[LiveBlock], removed: Mapping[str, LiveBlock]
) -> None:
    """No block is live already or twice, and no source counts twice."""
    if not added:
        return
    freed = {source for block in removed.values() for source in block.meta.sources}
    restoring = entry.operation == Operation.RESTORE
    left_live = state.blocks.changed(removed, ()).sources() if restoring else ulids.EMPTY
    taken: set[str] = set()
    seen: set[str] = set()
    for block in added:
        sources = block.meta.sources
        if (block.ulid in state.blocks and block.ulid not in removed) or block.ulid in seen:
            _refuse(entry, f"adds block {block.ulid}, which is live", "blocks that are not")
        seen.add(block.ulid)
        if not taken.isdisjoint(sources):
            doubled = next(source for source in sources if source in taken)
            _refuse(entry, f"adds source {doubled} in two blocks", "each source in one")
        taken.update(sources)
        if restoring:
            held = [source for source in sources if ulids.position(left_live, source) is not None]
        else:
            held = state.accounted.held(source for source in sources if source not in freed)
        if held:
            _refuse(
                entry,
                f"adds source {held[0]} in block {block.ulid}, which is accounted",
                "a new source",
            )


def _excepted(blocks: Blocks, entry: Entry) -> Blocks:
    changed = []
    for ulid, sources in entry.excepts.items():
        block = blocks.get(ulid)
        if block is None:
            _refuse(entry, f"excepts sources of block {ulid}, which is not live", "a live block")
        strange = sorted(set(sources).difference(block.meta.sources))
        if strange:
            _refuse(
                entry,
                f"excepts source {strange[0]}, which block {ulid} does not hold",
                "one of its sources",
            )
        changed.append(replace(block, excepted=block.excepted | set(sources)))
    return blocks.changed((), changed) if changed else blocks


def _accounted(state: State, entry: Entry, added: list[LiveBlock], blocks: Blocks) -> Sources:
    held = state.accounted.held(entry.account)
    if held:
        _refuse(
            entry,
            f"accounts for source {held[0]}, which is accounted",
            "sources unknown to the index",
        )
    accounted = state.accounted.with_(
        [*(source for block in added for source in block.meta.sources), *entry.account]
    )
    if entry.floor is None:
        return accounted
    keep = ulids.unique(ulids.from_texts(entry.keep), blocks.sources(entry.floor))
    return accounted.above(entry.floor, keep)


def _epochs(state: State, entry: Entry) -> Mapping[str, tuple[int, str]]:
    for role, epoch in entry.epochs.items():
        holder = state.epochs.get(role, (0, ""))
        if epoch != holder and epoch[0] <= holder[0]:
            _refuse(entry, f"claims epoch {epoch[0]} of {role}", f"one above {holder[0]}")
    return {**state.epochs, **entry.epochs} if entry.epochs else state.epochs


def _batches(batches: Batches, floor: str | None, entry: Entry, forgetting: bool) -> Batches:
    job = entry.job
    if job is not None:
        app = batches.get(job.app, AppBatches())
        if job.batch in app:
            _refuse(
                entry,
                f"commits batch {job.batch} of {job.app!r}, which is committed",
                "a batch once",
            )
        if forgetting and is_forgotten(job.app, floor):
            _refuse(
                entry,
                f"commits upload {job.app!r} at or below the floor {floor}",
                "a later one",
            )
        written = Written(job.batch, entry.id, tuple(block.ulid for block in entry.add))
        batches = batches.set(job.app, app.added(job.app, written))
    if forgetting and entry.floor is not None:
        batches = forget_uploads(batches, entry.floor)
    return batches


def _tags(state: State, entry: Entry) -> Mapping[str, int]:
    if not entry.tags:
        return state.tags
    tags = dict(state.tags)
    for name, version in entry.tags.items():
        if version is None:
            tags.pop(name, None)
        elif tags.setdefault(name, version) != version:
            _refuse(
                entry,
                f"moves tag {name!r} from version {tags[name]} to {version}",
                "tags that stay",
            )
    return tags


def _risen(entry: Entry, name: str, before: str | None, after: str | None) -> str | None:
    if after is None:
        return before
    if before is not None and after < before:
        _refuse(entry, f"moves the {name} back from {before} to {after}", "one that only rises")
    return after
