"""Adopt a block that arrived too late for the index: its rows become a new write with a new name.

Rules:
- Only rows of sources that the index does not account for are taken; the others are in the table
  already. Sources at or below the floor may have been forgotten, so a person must decide.
- Exactly once: the old block is marked first, and the mark names the new one. A second adoption, or
  that of another copy of the same write, continues with that name. A block that shares only some
  rows with an adopted one is refused. When the mark is gone with the old block, the history
  knows the adoption, as long as it is kept.
- If the definition knows the block's schema, the columns are matched by it, otherwise by name, as
  in an append. A missing or an additional column is refused before anything is marked.
- Where rows have an identity, only new rows of a table with row ids are adopted: others would be
  versions in an order that is not known.
- The compactor then removes the old block.
"""

from __future__ import annotations

import pyarrow as pa

from blockstore.care.examine import examine, list_directory
from blockstore.care.marks.adopted import ADOPTED, adopted_name
from blockstore.care.repair.copies import GoodFiles
from blockstore.care.repair.replacement import PRODUCER
from blockstore.care.repair.target import Target
from blockstore.errors import Conflict, Corrupt, Invalid, ObjectMissing
from blockstore.format.block import BlockKind, BlockMeta
from blockstore.format.casting import cast_batch
from blockstore.format.identity import RowIds
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

_FROM = "adopted from block "
"""The first words of an adoption's message in the history."""


def adopt(target: Target, files: GoodFiles) -> AppendedBlock:
    """Write the rows as a new block and publish it.

    Raises Conflict for a block that is marked for another reason.
    """
    assert target.log is not None, "only a table with an index has late blocks"
    old = files.meta
    _check_versions(target, old)
    accounted = frozenset(target.log.poll().accounted.held(old.sources))
    known = target.definition.id_of(old.schema) is not None
    schema = target.definition.schema if known else deserialize(old.schema)
    cast_batch(pa.RecordBatch.from_pylist([], schema=schema), target.definition)
    options = WriteOptions(
        labels=dict(old.labels),
        resume=_new_name(target, old, accounted),
        producer=PRODUCER,
        message=f"{_FROM}{old.ulid}",
    )
    assert options.resume is not None
    with Writer(target.bucket, target.world, target.log, target.definition, options) as writer:
        for batch in files.rows(schema, accounted):
            writer.write(batch.select(schema.names))
    block = writer.finish()
    # Only now: the block must not be removed before another one has its rows.
    _mark_adopted(target, old.ulid, options.resume)
    return block


def _check_versions(target: Target, old: BlockMeta) -> None:
    """Raise Invalid for rows that would become versions of rows in an order that is not known."""
    identity = target.definition.identity
    if identity is None or (isinstance(identity, RowIds) and _is_insert(old)):
        return
    raise Invalid(
        f"block {old.ulid} cannot be adopted: its rows would be versions of rows of this table, "
        "and which of them are newer is not known; look at them, and write those that count with "
        "upsert or put_rows"
    )


def _is_insert(old: BlockMeta) -> bool:
    return old.level == 1 and old.kind is BlockKind.PLAIN


def _new_name(target: Target, old: BlockMeta, accounted: frozenset[str]) -> str:
    """Return the name of the new block; a mark on the old one that removes nothing records it."""
    ulid = old.ulid
    name = _adopted_as(target, ulid)
    if name is None and _mark(target, ulid) is None:
        wanted = _adopted_copy(target, old, accounted)
        if wanted is None:
            _check_not_shown(target, old)
            wanted = target.world.ids.ulid()
        place_no_compact(
            target.bucket, target.world, ulid, NoCompactReason.MANUAL, f"{ADOPTED}{wanted}"
        )
        name = _adopted_as(target, ulid)
    if name is None:
        mark = _mark(target, ulid)
        if mark is None:
            kind, what = (
                "--no-compact",
                "kept out of merges by a mark that is not an adoption",
            )
        else:
            kind = "--deletion"
            what = (
                f"marked for deletion ({mark.reason}: {mark.details}), so its rows will be removed"
            )
        raise Conflict(
            f"block {ulid} is {what}: withdraw the mark first "
            f"(blockstore mark {target.bucket.url} {ulid} {kind} --remove), then adopt it"
        )
    return name


def _check_not_shown(target: Target, old: BlockMeta) -> None:
    """Raise Conflict if the history has an adoption of these rows, and the table shows it: its mark
    went with the old block, and a device may have uploaded that one again."""
    assert target.log is not None
    messages = {f"{_FROM}{name}" for name in (old.ulid, *old.sources)}
    blocks = target.log.state.blocks
    for entry in target.log.entries():
        if entry.message not in messages:
            continue
        names = [block.meta.ulid for block in entry.add]
        if blocks.holding(names):
            raise Conflict(
                f"the rows of block {old.ulid} were adopted before, in version {entry.id} as block "
                f"{names[0]}, and the table shows them: mark this copy for deletion (blockstore "
                f"mark {target.bucket.url} {old.ulid} --deletion)"
            )


def _adopted_copy(target: Target, old: BlockMeta, accounted: frozenset[str]) -> str | None:
    """Return the name under which another copy of the same sources was adopted, if there is one.

    Raises Conflict if that block shares only some of the sources: it is not known which rows are
    left.
    """
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
                f"block {name}: adopting it would count those rows twice; if this is the better "
                f"copy, revert {name} first and withdraw the mark of {ulid}"
            )
        return name
    return None


def _adopted_as(target: Target, ulid: str) -> str | None:
    """Return the name that the block's rows have, or will have, as a new write."""
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
    """Let the deletion mark alone record the name: after its withdrawal the block can be adopted
    again."""
    place_deletion(
        target.bucket, target.world, ulid, MarkReason.MANUAL, f"{ADOPTED}{name}", superseded_by=name
    )
    withdraw_no_compact(target.bucket, target.world, ulid)


def _mark(target: Target, ulid: str) -> DeletionMark | None:
    return examine(target.bucket, list_directory(target.bucket, ulid)).mark
