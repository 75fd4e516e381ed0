"""Tables whose rows change, as local files and as objects of a bucket without files, at any
version; and blocks of them merged, without a compactor."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.bucket.local import LocalBucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.format.block import BlockKind, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.format.identity import DELETED, VERSION
from blockstore.format.new_block import block_meta
from blockstore.format.schema import with_reserved
from blockstore.index import log as index_log
from blockstore.index.blocks import Blocks
from blockstore.index.rows import LiveBlock
from blockstore.reader.tables.at import NEWEST, At, at_of_each
from blockstore.scan.execute import read_plan
from blockstore.scan.identities import identities
from blockstore.scan.plan import carried, plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World


def created(folder: Path, definition: Definition) -> Table:
    """A new table of local files."""
    world = World.manual()
    bucket = LocalBucket(str(folder), world.clock, durable=False)
    return Table(bucket, world, index_log.create(bucket, world, definition))


def copied(table: Table) -> Table:
    """The same table in a bucket whose objects are no files."""
    bucket = MemoryBucket(table.world.clock, "memory://t")
    for info in table.bucket.list():
        bucket.put(info.key, table.bucket.get(info.key).data)
    return Table.open_bucket(bucket, table.world)


@dataclass(slots=True)
class Moving:
    """A source of tables that tests replace."""

    root: Path | None
    """The folder of local tables; None: there are none."""
    tables: dict[str, Table] = field(default_factory=dict)
    shown: dict[str, TableSnapshot] = field(default_factory=dict)
    """Snapshots instead of the tables' own."""

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        return tuple(self.tables)

    def find(self, name: str, allowed: Collection[str] | None = None) -> str:
        return name.lower()

    def snapshots(
        self,
        names: Iterable[str],
        at: At | Mapping[str, At] = NEWEST,
        allowed: Collection[str] | None = None,
    ) -> dict[str, TableSnapshot]:
        wanted = at_of_each(names, at)
        return {
            name: self.shown.get(name)
            or replace(self.tables[name].snapshot(version=one.version), reads=None)
            for name, one in wanted.items()
        }

    def folders(self) -> list[str]:
        return [] if self.root is None else [str(self.root)]

    @property
    def remote(self) -> bool:
        return self.root is None


def merged(snapshot: TableSnapshot, ulids: Sequence[str], kind: BlockKind) -> TableSnapshot:
    """The snapshot with blocks of one stream and kind replaced by one of level 2: of changes the
    newest rows of each identity, tombstones too; of plain blocks all rows."""
    inputs = [block for block in snapshot.snapshot.blocks if block.meta.ulid in ulids]
    if not inputs:
        return snapshot
    definition = snapshot.definition
    identity = definition.identity
    assert identity is not None
    some = replace(snapshot.snapshot, blocks=Blocks.of(inputs))
    template = replace(inputs[0].meta, level=2, kind=kind)
    extra = carried(template, identity)
    hidden = [name for name in extra if name != DELETED]
    plan = plan_scan(some, columns=[*definition.schema.names, *hidden], every_version=True)
    rows = read_plan(snapshot.bucket, plan, snapshot.world).read_all().combine_chunks()
    if kind is BlockKind.CHANGES:
        key = identities([rows[name] for name in identity.columns])
        newest: dict[object, int] = {}
        for place, (one, version) in enumerate(
            zip(key.to_pylist(), rows[VERSION].to_pylist(), strict=True)
        ):
            if one not in newest or rows[VERSION][newest[one]].as_py() < version:
                newest[one] = place
        rows = rows.take(sorted(newest.values()))
    else:
        assert not pc.any(rows[DELETED]).as_py()
    return _replaced(snapshot, inputs, kind, extra, rows)


def _replaced(
    snapshot: TableSnapshot,
    inputs: Sequence[LiveBlock],
    kind: BlockKind,
    extra: tuple[str, ...],
    rows: pa.Table,
) -> TableSnapshot:
    definition, world = snapshot.definition, snapshot.world
    labels = inputs[0].meta.labels
    writer = BlockWriter(
        snapshot.bucket,  # type: ignore[arg-type]
        world,
        world.ids.ulid(),
        definition,
        labels=labels,
        producer="test",
        extra_columns=extra,
    )
    schema = with_reserved(definition.schema, extra)
    writer.write(rows.select(schema.names).cast(schema))
    meta = block_meta(
        writer.finish(),
        ulid=writer.ulid,
        definition=definition,
        visible_by=VisibleBy.INDEX,
        producer="test",
        level=2,
        sources=tuple(sorted(source for one in inputs for source in one.meta.sources)),
        labels=labels,
        own=False,
        kind=kind,
    )
    live = LiveBlock(
        meta=replace(meta, schema=b"", schema_id=inputs[0].meta.schema_id),
        version=(snapshot.version or 0) + 100,
        first_row_id=10**9,
    )
    gone = {one.meta.ulid for one in inputs}
    blocks = [block for block in snapshot.snapshot.blocks if block.meta.ulid not in gone]
    shown: Snapshot = replace(snapshot.snapshot, blocks=Blocks.of([*blocks, live]))
    return replace(snapshot, snapshot=shown)
