"""Taking in a block that the index came too late for: its rows become a new write, under a name of
their own.

Rules:
- Only rows of sources that the index does not account for are taken in; those of others are in the
  table already. What lies at or below the floor may have been forgotten: that is why a person
  decides.
- Exactly once: the old block is marked first, and the mark names the new one; whoever adopts it
  again, or another copy of the same write, goes on with that name. A block of whose rows only some
  were adopted is refused.
- Columns are those of the schema that the definition knows; of one that it does not know they are
  matched by name, as an append's, and one too many or too few is refused before anything is marked.
- The old block is then the compactor's to remove.
"""

from __future__ import annotations

import pyarrow as pa

from blockstore.care.examine import examine, list_directory
from blockstore.care.marks.adopted import ADOPTED, adopted_name
from blockstore.care.repair.copies import GoodFiles
from blockstore.care.repair.replacement import PRODUCER
from blockstore.care.repair.target import Target
from blockstore.errors import Conflict, Corrupt, ObjectMissing
from blockstore.format.block import BlockMeta
from blockstore.format.casting import cast_batch
from blockstore.format.marks import (
    DeletionMark,
    MarkReason,
    NoCompactReason,
    decode_no_compact_mark,
)
from blockstore.format.schema import deserialize
from blockstore.lifecycle.mark import place_deletion, place_no_compact, withdraw_no_compact
from blockstore.names import no_compact_mark_key
from blockstore.operations.append import AppendedBlock
from blockstore.operations.writer import WriteOptions, Writer


def adopt(target: Target, files: GoodFiles) -> AppendedBlock:
    """Write the rows as a new block and publish it.

    Raises Conflict for a block that is marked for another reason.
    """
    assert target.log is not None, "only an index comes too late for a block"
    old = files.meta
    accounted = frozenset(target.log.poll().accounted.held(old.sources))
    known = target.definition.id_of(old.schema) is not None
    schema = target.definition.schema if known else deserialize(old.schema)
    cast_batch(pa.RecordBatch.from_pylist([], schema=schema), target.definition)
    options = WriteOptions(
        labels=dict(old.labels),
        resume=_new_name(target, old, accounted),
        producer=PRODUCER,
        message=f"adopted from block {old.ulid}",
    )
    assert options.resume is not None
    with Writer(target.bucket, target.world, target.log, target.definition, options) as writer:
        for batch in files.rows(schema, accounted):
            writer.write(batch.select(schema.names))
    block = writer.finish()
    # Only now: until its rows are somebody else's, nothing may remove the block.
    _mark_adopted(target, old.ulid, options.resume)
    return block


def _new_name(target: Target, old: BlockMeta, accounted: frozenset[str]) -> str:
    """The name under which the rows are written, remembered beside the old block by a mark that
    removes nothing."""
    ulid = old.ulid
    name = _adopted_as(target, ulid)
    if name is None and _mark(target, ulid) is None:
        wanted = _adopted_copy(target, old, accounted) or target.world.ids.ulid()
        place_no_compact(
            target.bucket, target.world, ulid, NoCompactReason.MANUAL, f"{ADOPTED}{wanted}"
        )
        name = _adopted_as(target, ulid)
    if name is None:
        mark = _mark(target, ulid)
        if mark is None:
            kind, what = (
                "--no-compact",
                "kept from merges by a mark that says nothing of an adoption",
            )
        else:
            kind = "--deletion"
            what = (
                f"marked for deletion ({mark.reason}: {mark.details}), so its rows are on their "
                "way out"
            )
        raise Conflict(
            f"block {ulid} is {what}: withdraw the mark first "
            f"(blockstore mark {target.bucket.url} {ulid} {kind} --remove), then adopt it"
        )
    return name


def _adopted_copy(target: Target, old: BlockMeta, accounted: frozenset[str]) -> str | None:
    """The name under which another block's rows of the same sources were adopted. Raises Conflict
    where it is a part of them: nobody can say which rows are left."""
    state = target.access.log.state
    wanted = frozenset(old.sources) - accounted
    for ulid, found in target.catalog.sync(skip=lambda ulid: ulid in state.blocks).found.items():
        sources = frozenset((ulid,) if found.meta is None else found.meta.sources) - accounted
        if ulid == old.ulid or sources.isdisjoint(wanted):
            continue
        name = _adopted_as(target, ulid)
        if name is None:
            continue
        if sources != wanted:
            raise Conflict(
                f"block {old.ulid} shares sources with block {ulid}, whose rows were adopted as "
                f"block {name}: "
                f"taking it in would count them twice; revert {name} first, and withdraw the mark "
                f"of {ulid}, if "
                "this one is the better copy"
            )
        return name
    return None


def _adopted_as(target: Target, ulid: str) -> str | None:
    """The name that the block's rows have, or are to have, as a write of their own."""
    mark = _mark(target, ulid)
    if mark is not None:
        return adopted_name(mark)
    try:
        data = target.bucket.get(no_compact_mark_key(ulid)).data
        details = decode_no_compact_mark(data, ulid=ulid).details
    except (ObjectMissing, Corrupt):
        return None
    return details.removeprefix(ADOPTED) if details.startswith(ADOPTED) else None


def _mark_adopted(target: Target, ulid: str, name: str) -> None:
    """From now on the deletion mark alone remembers the name: who withdraws it may adopt the block
    anew."""
    place_deletion(
        target.bucket, target.world, ulid, MarkReason.MANUAL, f"{ADOPTED}{name}", superseded_by=name
    )
    withdraw_no_compact(target.bucket, target.world, ulid)


def _mark(target: Target, ulid: str) -> DeletionMark | None:
    return examine(target.bucket, list_directory(target.bucket, ulid)).mark
