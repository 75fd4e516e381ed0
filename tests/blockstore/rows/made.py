"""Blocks of level 2 made by hand, as a merge would make them, or as a faulty one would."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from blockstore.format.block import BlockKind, BlockMeta, Parent, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.identity import DELETED, stored_columns
from blockstore.format.new_block import block_meta
from blockstore.format.schema import with_reserved
from blockstore.index.added import AddedBlock
from blockstore.index.change import Draft
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.lifecycle.upload import finish_upload
from blockstore.scan.execute import read_plan
from blockstore.scan.plan import plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.table import Table
from tests.support.index_data import Planned


def every_version(table: Table, ulids: Iterable[str] | None = None) -> pa.Table:
    """All rows of live blocks with their ids, versions, sources and tombstones."""
    state = table.log.poll()
    chosen = state.blocks.ulids() if ulids is None else list(ulids)
    blocks = state.blocks.of(list(state.blocks.get_all(chosen).values()))
    names = dict.fromkeys([*state.definition.schema.names, *_reserved(state)])
    snapshot = replace(Snapshot.of(state), blocks=blocks)
    plan = plan_scan(snapshot, columns=names, every_version=True)
    return pa.Table.from_batches(read_plan(table.bucket, plan, table.world), plan.output_schema)


def upload(
    table: Table,
    rows: pa.Table,
    *,
    kind: BlockKind = BlockKind.PLAIN,
    inputs: Iterable[str] = (),
) -> BlockMeta:
    """A block of level 2 with these rows, in place of others (or, without any, of its own). A row
    of no source of the block becomes one of its first."""
    state = table.log.state
    parents = [block.meta for block in state.blocks.get_all(list(inputs)).values()]
    deleted = () if kind is BlockKind.PLAIN else (DELETED,)
    extra = (*_reserved(state), *deleted)
    schema = with_reserved(state.definition.schema, extra)
    ulid = table.world.ids.ulid()
    sources = sorted({source for meta in parents for source in meta.sources}) or [ulid]
    own = [one if one in sources else sources[0] for one in rows["_source"].to_pylist()]
    at = rows.schema.get_field_index("_source")
    rows = rows.set_column(at, "_source", pa.array(own, pa.string()))
    with BlockWriter(
        table.bucket, table.world, ulid, state.definition, producer="test", extra_columns=extra
    ) as writer:
        for batch in rows.select(schema.names).cast(schema).to_batches():
            writer.write(batch)
        written = writer.finish()
    meta = block_meta(
        written,
        ulid=ulid,
        definition=state.definition,
        visible_by=VisibleBy.INDEX,
        producer="test",
        level=2,
        sources=tuple(sources),
        parents=tuple(
            Parent(ulid=one.ulid, min_time=one.min_time, max_time=one.max_time) for one in parents
        ),
        own=not parents,
        kind=kind,
    )
    return finish_upload(table.bucket, table.world, meta)


def replace_blocks(table: Table, inputs: Iterable[str], *blocks: BlockMeta) -> int | None:
    """Put blocks in the place of others, as an entry of a merge does."""
    gone = tuple(sorted(inputs))
    plan = Draft(add=tuple(AddedBlock(meta=meta) for meta in blocks), remove=gone)
    change = Planned(operation=Operation.COMPACT, commit=table.world.ids.ulid(), plan=plan)
    return table.log.commit(change).version


def _reserved(state: State) -> tuple[str, ...]:
    identity = state.definition.identity
    assert identity is not None
    return ("_source", *stored_columns(identity))
