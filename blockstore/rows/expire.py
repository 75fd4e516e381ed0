"""Expiring blocks of rows that have an identity: what retention does, and what a person's deletion
mark on a live block becomes.

Rules (design 8.5):
- Plain blocks and former versions leave as any block does: they hide nothing.
- Blocks of changes leave only if no older version of their rows is left in another block. Rows that
  hide one there get a tombstone in the same entry: a row that was moved back in time would return
  when its newer version expires. Both are judged again at the commit.
- The changes of each stream expire by their own entry.
- Of a stream of which a block cannot be read no changes leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from blockstore.errors import Conflict, Corrupt, Fenced, HistoryReplaced
from blockstore.format.block import BlockKind, BlockMeta, StreamKey
from blockstore.format.identity import Identity
from blockstore.index.added import AddedBlock
from blockstore.index.change import Draft, Expire
from blockstore.index.entry import Operation
from blockstore.index.epochs import Held
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.conditions import check_said
from blockstore.operations.results import Changed
from blockstore.operations.rewrite import live_blocks
from blockstore.rows.block import ChangesWriter
from blockstore.rows.judged import Judged
from blockstore.rows.named import Named
from blockstore.scan.execute import read_plan
from blockstore.scan.plan import plan_scan
from blockstore.scan.resolve import columns_reader
from blockstore.scan.shadows import LeftOut, ShadowCache, look
from blockstore.scan.snapshot import Snapshot

PRODUCER = "retention"
_TRIES = 5


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What one entry removed."""

    blocks: tuple[BlockMeta, ...] = ()
    version: int | None = None
    tombstones: str | None = None
    """The block of tombstones that it added."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Blocks that stay, and why."""


def expire_rows(
    access: Access, ulids: Iterable[str], reason: str, details: str = "", *, message: str = ""
) -> Changed:
    """Remove these live blocks, one entry for each stream and kind.

    Raises NotFound if one is not live, Corrupt if it is not known which rows they hide, Conflict if
    others change the same blocks or rows all the while.
    """
    check_said(None, message)
    wanted = [ulids] if isinstance(ulids, str) else list(ulids)
    gone: list[BlockMeta] = []
    added: list[str] = []
    version: int | None = None
    cache, left = ShadowCache(), _TRIES
    while waiting := [ulid for ulid in wanted if ulid not in {meta.ulid for meta in gone}]:
        state, blocks = live_blocks(access.log, waiting)
        found = [block.meta for block in blocks]
        try:
            done = expire_some(
                access, state, found, cache, reason=reason, details=details, message=message
            )
        except (Fenced, HistoryReplaced):
            raise
        except Conflict:
            left -= 1
            if not left:
                raise
            continue
        if done.failed:
            ulid, why = next(iter(done.failed.items()))
            raise Corrupt(f"block {ulid} stays in the table: {why}; repair that block first")
        gone += done.blocks
        added += [] if done.tombstones is None else [done.tombstones]
        version = done.version
    return Changed(
        operation=str(Operation.EXPIRE),
        version=version,
        added=tuple(added),
        removed=tuple(meta.ulid for meta in gone),
        rows_removed=None,
        bytes_removed=sum(meta.bytes for meta in gone),
    )


def expire_some(
    access: Access,
    state: State,
    found: Sequence[BlockMeta],
    cache: ShadowCache,
    *,
    reason: str,
    details: str,
    held: Held | None = None,
    message: str = "",
) -> Expired:
    """Remove some blocks of ``found``, which are live in ``state``, by one entry: first all that
    hide nothing, then the changes of one stream.

    Args:
        access: The table.
        state: The version that was looked at.
        found: The blocks that are to go.
        cache: What was found of hidden rows before.
        reason: Why, as the entry says it.
        details: The same in words.
        held: The role in whose name it is done.
        message: A comment for the history.

    Raises:
        Conflict: They, or their rows, were changed meanwhile.
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
            access.bucket, access.world, Snapshot.of(state), cache, skip=lambda one: one != stream
        )
        if stream in shadows.unread:
            why = f"which rows it hides is not known: {shadows.unread[stream][1]}"
            return Expired(failed=dict.fromkeys(ulids, why))
        over = shadows.streams[stream]
        newest = over.newest_of(ulids)
        judged = Judged(blocks=state.blocks, but=ulids, stream=stream, newest=newest)
        made = _tombstones(access, state, stream, over.uncovered_by(ulids))
    live = state.blocks.get_all(meta.ulid for meta in own)
    change = ExpireVersions(
        commit=access.world.ids.ulid(),
        read={ulid: block.excepted for ulid, block in live.items()},
        reason=reason,
        details=details,
        read_version=state.version,
        role=None if held is None else held.role,
        epoch=None if held is None else held.epoch,
        message=message,
        identity=identity,
        judged=judged,
        tombstones=None if made is None else made[0],
        named=None if made is None else made[1],
    )
    version = access.log.commit(change).version
    tombstones = None if made is None else made[0].ulid
    return Expired(blocks=tuple(own), version=version, tombstones=tombstones)


def _tombstones(
    access: Access, state: State, stream: StreamKey, rows: LeftOut
) -> tuple[BlockMeta, Named] | None:
    """Upload tombstones for these rows; None if there are none."""
    if not rows:
        return None
    with ChangesWriter(access, state.definition, stream, producer=PRODUCER) as writer:
        for keys in _keys(access, state, rows):
            writer.delete(keys)
        return writer.finish()


def _keys(access: Access, state: State, rows: LeftOut) -> Iterator[pa.RecordBatch]:
    """The columns that identify these rows."""
    identity = state.definition.identity
    assert identity is not None
    plan = plan_scan(Snapshot.of(state))
    chunks = [chunk for chunk in plan.chunks if chunk.key in rows]
    read = columns_reader(plan, lambda columns: read_plan(access.bucket, columns, access.world))
    for chunk, columns in zip(chunks, read(chunks, identity.columns), strict=True):
        places = pa.array(rows[chunk.key])
        taken = [columns[name].take(places) for name in identity.columns]
        yield pa.RecordBatch.from_arrays(taken, names=list(identity.columns))
