"""Compose the state and the definition with which a rebuilt index begins. Pure.

Rules of the state:
- Sources of blocks that are taken are accounted for, and so are those of appends that are left out:
  discovery must not bring them back. A write below the floor is not: it can be adopted.
- Where rows have an identity, blocks that no entry names have versions of their own, in the order
  of their ULIDs, so that a row has one version in each; and new row ids begin far above those that
  lost entries can have given.
- Rows that an entry hid stay hidden, in whatever block holds them now.
- The horizon is as high as it may be now. The lost one is not known, and a cleaner that knew it may
  still be removing what a stalled writer would commit (``specs/horizon.pml``).
- The rebuild claims every role: each process that held one is fenced.
- The window of commit ids is empty, as for a version that was collected. An operation that was
  running when the index was lost is decided by its blocks or its batch, or stays Indeterminate
  (protocol 3.3, step 1).

Rules of the definition:
- A schema of blocks that the newest readable definition does not know comes from a lost alter: it
  becomes the next one. Of two schemas the one that reads the other is newer; of two that read each
  other, as after a rename, the one whose first block is newer. A lost drop brings its column back.
- Blocks whose schema neither reads the others nor is read by them are reported: they do not belong
  to this table's history.
- Without any definition the time column and the sort key are those of the newest block, and default
  labels are those that every block has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from blockstore.care.rebuild.decide import Judged, Verdict
from blockstore.care.rebuild.evidence import Evidence, Known
from blockstore.format.block import BlockMeta, Job, VisibleBy
from blockstore.format.constraints import is_enforced
from blockstore.format.definition import Definition
from blockstore.format.evolution import under
from blockstore.format.features import COLUMNS, UPLOADS
from blockstore.format.fields import field_id
from blockstore.format.identity import ROW_ID, RowIds
from blockstore.format.properties import Properties
from blockstore.format.schema import deserialize, readable_under
from blockstore.index.batches import AppBatches, Batches, Written, forget_uploads
from blockstore.index.blocks import Blocks
from blockstore.index.commit_ids import Commits, Run
from blockstore.index.dropped import Dropped
from blockstore.index.entry import Entry, Epoch, Operation
from blockstore.index.rows import LiveBlock
from blockstore.index.sources import Sources
from blockstore.index.state import State

_ID_JUMP = 2**32
"""The next row id is a multiple of this: no process can have given so many since the last known
one."""


def newest_definition(evidence: Evidence) -> Definition | None:
    """Return the newest definition that can be read."""
    definitions = [entry.table for entry in evidence.later if entry.table is not None]
    if definitions:
        return definitions[-1]
    return None if evidence.state is None else evidence.state.table


def newest_tags(evidence: Evidence) -> dict[str, int]:
    """Return the tags, as far as entries can be read."""
    tags = dict(evidence.state.tags) if evidence.state is not None else {}
    for entry in evidence.later:
        for name, version in entry.tags.items():
            if version is None:
                tags.pop(name, None)
            else:
                tags[name] = version
    return tags


def compose(
    evidence: Evidence,
    judged: Iterable[Judged],
    *,
    definition: Definition,
    tags: Mapping[str, int],
    version: int,
    commit: str,
    horizon: str,
) -> State:
    """Return the state of the rebuilt index.

    Args:
        evidence: what is known of every block.
        judged: what becomes of each.
        definition: the table's definition.
        tags: the tags whose checkpoints can be read.
        version: the version of the state.
        commit: the id of the rebuild, which claims every role.
        horizon: the highest horizon that is possible now.
    """
    listed = list(judged)
    before = evidence.state or State.EMPTY
    following = max(
        [before.next_row_id, *((entry.first_row_id or 0) + entry.rows for entry in evidence.later)]
    )
    taken = [one.known for one in listed if one.verdict is Verdict.TAKE]
    if isinstance(definition.identity, RowIds):
        following = _above_lost_ids(following, (one.known for one in listed))
    fresh = sum(known.named is None for known in taken)
    live = []
    for known in taken:
        own = version if definition.identity is None else version - fresh + 1
        block = _live(known, definition, own, following, evidence.hidden)
        if known.named is None:
            following += block.meta.rows
            fresh -= 1
        live.append(block)
    time_ms = max([before.time_ms, *(entry.time for entry in evidence.later)])
    batches = _batches(before, evidence.later, live, version)
    floor = _highest([before.floor, *(entry.floor for entry in evidence.later)])
    requires = tuple(
        sorted(
            {
                *before.requires,
                *(one for entry in evidence.later for one in entry.requires),
                *definition.requires,
            }
        )
    )
    return State(
        version=version,
        time_ms=time_ms,
        blocks=Blocks.of(live),
        accounted=_accounted(before, evidence, listed, live),
        commits=Commits(
            Run(version + 1, "", np.empty(0, dtype=np.int64)), version=version, time_ms=time_ms
        ),
        epochs=_epochs(before, evidence.later, commit),
        batches=forget_uploads(batches, floor)
        if floor is not None and UPLOADS in requires
        else batches,
        tags=dict(tags),
        horizon=_highest([horizon, before.horizon, *(entry.horizon for entry in evidence.later)]),
        floor=floor,
        next_row_id=following,
        table=definition,
        requires=requires,
        created=max([before.created, *(entry.id for entry in evidence.later if _creates(entry))]),
        first_row_id=before.next_row_id
        if any(map(_creates, evidence.later))
        else before.first_row_id,
        dropped=_dropped(before, evidence.later),
    )


def _creates(entry: Entry) -> bool:
    return entry.operation == Operation.CREATE and entry.id > 1


def _dropped(before: State, later: Iterable[Entry]) -> Dropped | None:
    """Whether the table is dropped, as far as the entries say."""
    dropped = before.dropped
    for entry in later:
        if entry.operation == Operation.DROP:
            dropped = Dropped(version=entry.id, time_ms=entry.time)
        elif entry.operation in (Operation.UNDROP, Operation.CREATE):
            dropped = None
        elif entry.operation == Operation.CLEAR and dropped is not None:
            dropped = replace(dropped, cleared=entry.id)
    return dropped


def _above_lost_ids(following: int, found: Iterable[Known]) -> int:
    """Return the next row id, above all that entries which are lost can have given.

    They may have given ids to rows whose blocks are left out or gone: somebody may have noted them.
    """
    unnamed = [known for known in found if known.named is None]
    metas = [known.meta for known in unnamed if known.meta is not None]
    stats = [chunk.columns.get(ROW_ID) for meta in metas for chunk in meta.chunks]
    seen = [one.max for one in stats if one is not None and isinstance(one.max, int)]
    highest = max([following, *(row + 1 for row in seen)])
    return (highest + sum(meta.rows for meta in metas)) // _ID_JUMP * _ID_JUMP + _ID_JUMP


def _live(
    known: Known, definition: Definition, version: int, first_row_id: int, hidden: frozenset[str]
) -> LiveBlock:
    meta = known.meta
    assert meta is not None, "only a block with a known meta is taken"
    excepted = hidden.intersection(meta.sources)
    if known.named is not None:
        return replace(known.named, excepted=known.named.excepted | excepted)
    schema_id = definition.id_of(meta.schema)
    assert schema_id is not None, "the definition knows the schema of every block that is taken"
    return LiveBlock(
        meta=replace(meta, schema=b"", schema_id=schema_id),
        version=version,
        first_row_id=first_row_id,
        excepted=excepted,
    )


def _accounted(
    before: State, evidence: Evidence, judged: list[Judged], live: list[LiveBlock]
) -> Sources:
    floor = _highest([before.floor, *(entry.floor for entry in evidence.later)])
    left = [
        source
        for one in judged
        if one.verdict is Verdict.LEAVE and one.known.meta is not None
        if one.known.meta.visible_by is VisibleBy.AGE
        for source in one.known.meta.sources
        if floor is None or source > floor
    ]
    return before.accounted.with_(
        [*evidence.accounted, *left, *(source for block in live for source in block.meta.sources)]
    )


def _epochs(before: State, later: tuple[Entry, ...], commit: str) -> dict[str, Epoch]:
    held = dict(before.epochs)
    for entry in later:
        held.update(entry.epochs)
    return {role: (number + 1, commit) for role, (number, _) in held.items()}


def _batches(
    before: State, later: tuple[Entry, ...], live: list[LiveBlock], version: int
) -> Batches:
    batches = before.batches
    for entry in later:
        if entry.job is not None:
            batches = _with_batch(
                batches, entry.job, entry.id, tuple(block.ulid for block in entry.add)
            )
    for block in live:
        if block.meta.job is not None:
            batches = _with_batch(batches, block.meta.job, version, (block.ulid,))
    return batches


def _with_batch(batches: Batches, job: Job, version: int, blocks: tuple[str, ...]) -> Batches:
    app = batches.get(job.app, AppBatches())
    if job.batch in app:
        return batches
    return batches.set(job.app, app.added(job.app, Written(job.batch, version, blocks)))


def _highest(values: Iterable[str | None]) -> str | None:
    return max((value for value in values if value is not None), default=None)


def define(
    known: Definition | None, metas: Sequence[BlockMeta], properties: Properties
) -> tuple[Definition | None, frozenset[str]]:
    """Return the definition, and the blocks whose schema does not fit it.

    Args:
        known: the newest definition that can be read, if any.
        metas: the blocks that no entry named, each with its schema.
        properties: used if no definition is left.

    Returns:
        The definition is None if no entry and no block has one.
    """
    ages = _ages(metas)
    schemas = sorted(ages, key=lambda data: ages[data])
    if known is None:
        if not schemas:
            return None, frozenset()
        known = _first(deserialize(schemas[0]), metas, properties)
    strange = set()
    for data in schemas:
        if known.id_of(data) is not None:
            continue
        schema = deserialize(data)
        if readable_under(known.schema, schema):
            known = _grown(known, [schema])
        elif readable_under(schema, known.schema):
            known = _grown(known, [schema, known.schema])
        else:
            strange.add(data)
    return known, frozenset(meta.ulid for meta in metas if meta.schema in strange)


def _ages(metas: Sequence[BlockMeta]) -> dict[bytes, tuple[int, str]]:
    """Return a sort key for each schema by its age: field ids only grow; of schemas with the same
    ids the one whose first block is older is older, since a rename gives no id."""
    ages: dict[bytes, tuple[int, str]] = {}
    for meta in sorted(metas, key=lambda meta: meta.ulid):
        ages.setdefault(meta.schema, (_last_field_id(deserialize(meta.schema)), meta.ulid))
    return ages


def _first(schema: pa.Schema, metas: Sequence[BlockMeta], properties: Properties) -> Definition:
    newest = max(metas, key=lambda meta: meta.ulid)
    labels = [dict(meta.labels) for meta in metas]
    own = {field_id(field): field.name for field in schema if field_id(field) is not None}
    names = {
        field.name: name
        for field in deserialize(newest.schema)
        if (name := own.get(field_id(field), field.name)) in schema.names
    }
    return Definition(
        schema=schema,
        schema_id=1,
        schemas={1: schema},
        last_field_id=_last_field_id(schema),
        time_column=None if newest.time_column is None else names.get(newest.time_column),
        sort_by=tuple(names[name] for name in newest.sort_by if name in names),
        labels=labels[0] if all(one == labels[0] for one in labels) else {},
        properties=properties,
        requires=(COLUMNS,) if is_enforced(schema) else (),
    )


def _grown(known: Definition, schemas: Iterable[pa.Schema]) -> Definition:
    for schema in schemas:
        known = replace(known, last_field_id=max(known.last_field_id, _last_field_id(schema)))
        known = under(known, schema)
    return known


def _last_field_id(schema: pa.Schema) -> int:
    return max((_highest_id(field) for field in schema), default=0)


def _highest_id(field: pa.Field) -> int:
    kind = field.type
    children = [kind.field(place) for place in range(kind.num_fields)]
    return max([field_id(field) or 0, *(_highest_id(child) for child in children)])
