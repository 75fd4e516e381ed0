"""Expiring blocks of rows that have an identity, and former versions that are no longer kept.

Rules (design 8.5):
- Plain blocks and former versions leave as any block does: they hide nothing.
- Blocks of changes leave only if no older version of their rows is left in another block. Rows that
  hide one there get a tombstone in the same entry: a row that was moved back in time would return
  when its newer version expires. Both are judged again at the commit.
- An entry takes the changes of one write, so the changes of each stream expire by their own entry.
- Of a stream of which a block cannot be read no changes leave.
- A block of history leaves once the newest of its versions was replaced longer ago than they are
  kept: nothing is kept shorter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from blockstore.errors import Conflict
from blockstore.format.block import BlockKind, BlockMeta, StreamKey
from blockstore.format.identity import Identity
from blockstore.format.properties import FOREVER_S
from blockstore.ids import ulid_time_ms
from blockstore.index.added import AddedBlock
from blockstore.index.change import Draft, Expire
from blockstore.index.epochs import Held
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.rows.block import ChangesWriter
from blockstore.rows.judged import Judged
from blockstore.rows.named import Named
from blockstore.scan.execute import read_plan
from blockstore.scan.plan import plan_scan
from blockstore.scan.resolve import columns_reader
from blockstore.scan.shadows import LeftOut, ShadowCache, look
from blockstore.scan.snapshot import Snapshot
from blockstore.table import Table

PRODUCER = "retention"


@dataclass(kw_only=True)
class ExpireVersions(Expire):
    """Remove blocks of a stream, and add tombstones for rows that hide older versions elsewhere."""

    identity: Identity
    judged: Judged | None = None
    """That nothing else is uncovered; None if no block of changes goes."""
    tombstones: BlockMeta | None = None
    named: Named | None = None
    """The rows of the tombstones."""

    def draft(self, state: State) -> Draft:
        if state.definition.identity != self.identity:
            raise Conflict("what identifies the rows was changed after they were read: plan again")
        if self.judged is not None:
            self.judged.check(state)
        self._check_untouched(state)
        added = () if self.tombstones is None else (AddedBlock(meta=self.tombstones),)
        return replace(super().draft(state), add=added, uncovers=False)

    def _check_untouched(self, state: State) -> None:
        """A row that was changed since has a newer version, which a tombstone would delete."""
        read = self.read_version
        if self.named is None or read is None or read == state.version:
            return
        among = None if state.touches is None else state.touches.among(self.named.hashes, read)
        if among is None or len(among):
            raise Conflict(
                f"rows that expire were changed after version {read}: read the table again and "
                "plan again"
            )


def old_history(state: State, now_ms: int) -> list[BlockMeta]:
    """The blocks of former versions that are no longer kept."""
    definition = state.definition
    kept_s = definition.properties.kept_history_s(definition.identity)
    if definition.identity is None or kept_s == FOREVER_S:
        return []
    before_ms = now_ms - round(kept_s * 1000)
    return [
        block.meta
        for block in state.blocks
        if block.meta.kind is BlockKind.HISTORY
        and ulid_time_ms(max(block.meta.sources)) <= before_ms
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What one entry removed."""

    blocks: tuple[BlockMeta, ...] = ()
    version: int | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    """Blocks that stay, and why."""


def expire_some(
    table: Table,
    state: State,
    found: Sequence[BlockMeta],
    cache: ShadowCache,
    *,
    reason: str,
    details: str,
    held: Held,
) -> Expired:
    """Remove some blocks of ``found``, which are live in ``state``, by one entry: first all that
    hide nothing, then the changes of one stream.

    Raises Conflict if they, or their rows, were changed meanwhile.
    """
    identity = state.definition.identity
    assert identity is not None, "the caller looks for versions of rows"
    own = [meta for meta in found if meta.kind is not BlockKind.CHANGES]
    judged, made = None, None
    if not own:
        stream = min(meta.stream for meta in found)
        own = [meta for meta in found if meta.stream == stream]
        ulids = tuple(meta.ulid for meta in own)
        shadows = look(
            table.bucket, table.world, Snapshot.of(state), cache, skip=lambda one: one != stream
        )
        if stream in shadows.unread:
            why = f"which rows it hides is not known: {shadows.unread[stream][1]}"
            return Expired(failed=dict.fromkeys(ulids, why))
        over = shadows.streams[stream]
        newest = over.newest_of(ulids)
        judged = Judged(blocks=state.blocks, but=ulids, stream=stream, newest=newest)
        made = _tombstones(table, state, stream, over.uncovered_by(ulids))
    live = state.blocks.get_all(meta.ulid for meta in own)
    change = ExpireVersions(
        commit=table.world.ids.ulid(),
        read={ulid: block.excepted for ulid, block in live.items()},
        reason=reason,
        details=details,
        read_version=state.version,
        role=held.role,
        epoch=held.epoch,
        identity=identity,
        judged=judged,
        tombstones=None if made is None else made[0],
        named=None if made is None else made[1],
    )
    return Expired(blocks=tuple(own), version=table.log.commit(change).version)


def _tombstones(
    table: Table, state: State, stream: StreamKey, rows: LeftOut
) -> tuple[BlockMeta, Named] | None:
    """Upload tombstones for these rows; None if there are none."""
    if not rows:
        return None
    access = Access.of(table.bucket, table.world, table.log)
    with ChangesWriter(
        access, state.definition, producer=PRODUCER, labels=dict(stream.labels)
    ) as writer:
        for keys in _keys(table, state, rows):
            writer.delete(keys)
        return writer.finish()


def _keys(table: Table, state: State, rows: LeftOut) -> Iterator[pa.RecordBatch]:
    """The columns that identify these rows."""
    identity = state.definition.identity
    assert identity is not None
    plan = plan_scan(Snapshot.of(state))
    chunks = [chunk for chunk in plan.chunks if chunk.key in rows]
    read = columns_reader(plan, lambda columns: read_plan(table.bucket, columns, table.world))
    for chunk, columns in zip(chunks, read(chunks, identity.columns), strict=True):
        places = pa.array(rows[chunk.key])
        taken = [columns[name].take(places) for name in identity.columns]
        yield pa.RecordBatch.from_arrays(taken, names=list(identity.columns))
