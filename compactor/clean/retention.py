"""Retention: expiring blocks whose rows are all older than the table's property ``retention``.

Rules:
- By the block's ``maxTime`` (exclusive) and the store's clock: a block expires once its last row is
  old enough, never before.
- With an index the blocks leave by one ``expire`` entry, in the compactor's role. A block that was
  merged or reverted meanwhile is looked at again. Cleaning marks and removes them once no version
  names them.
- Without an index a retention mark hides them at once (3.2). Only blocks that the cover chooses are
  marked; the others go because they are superseded. A block without rows declares the table and
  stays.
- No block of a stream that the configuration skips leaves the table (``skip.py``).
- Nothing of a dropped table expires: it may be brought back as it was (``clear.py``).
- Retention decides by block and never rewrites one.
- Where rows have an identity, expired rows never uncover older versions, and former versions leave
  that ``row_history`` no longer keeps (``versions.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow.compute as pc

from blockstore.compactor.clean.carry_out import CarriedOut, carry_out
from blockstore.compactor.clean.cleaner import OBJECTS_PER_S
from blockstore.compactor.clean.versions import old_history
from blockstore.compactor.plan.skip import Labels, is_skipped
from blockstore.errors import Conflict, Fenced, HistoryReplaced, NotFound
from blockstore.format.block import BlockMeta
from blockstore.format.durations import format_duration
from blockstore.format.marks import MarkReason
from blockstore.format.names_now import time_column_of
from blockstore.freshness import Freshness
from blockstore.index.epochs import Held, check_held
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.lifecycle.by_cover import listed_of
from blockstore.lifecycle.decide import Action, Decision
from blockstore.lifecycle.rate import Rate
from blockstore.lifecycle.sight import Sight
from blockstore.operations.access import Access
from blockstore.operations.expire import expire
from blockstore.rows.expire import expire_some
from blockstore.scan.shadows import ShadowCache
from blockstore.table import Table

_TRIES = 5
_FORMER = "its versions of rows were replaced longer ago than row_history keeps them"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReport:
    """What retention did, or would do in a dry run."""

    url: str
    retention_s: float | None
    """None: the table keeps everything."""
    before_ms: int | None = None
    """Rows up to this time are old enough."""
    blocks: tuple[str, ...] = ()
    rows: int = 0
    bytes: int = 0
    version: int | None = None
    """The entry that expired them; None without an index, for a dry run, and if there were none."""
    dry_run: bool = False
    failed: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """The report for machines."""
        return {
            "table": self.url,
            "retention": None if self.retention_s is None else format_duration(self.retention_s),
            "before": self.before_ms,
            "blocks": list(self.blocks),
            "rows": self.rows,
            "bytes": self.bytes,
            "version": self.version,
            "dry_run": self.dry_run,
            "failed": dict(self.failed),
        }


def plan_retention(table: Table) -> RetentionReport:
    """What retention would expire now; changes nothing."""
    if table.indexed:
        state = table.log.poll()
        old = [*_old_by_index(table, state), *_old_history(table, state, ())]
        found = list({meta.ulid: meta for meta in old}.values())
    else:
        _, found = _old_by_cover(table)
    return _retained(table, found, dry_run=True)


def retain(
    table: Table, held: Held | None, *, skip: Labels = (), objects_per_s: float = OBJECTS_PER_S
) -> RetentionReport:
    """Expire what is old enough, except streams with a label of ``skip``.

    ``held`` is the compactor role; None without an index. Raises Fenced if another process holds
    the role.
    """
    if not table.indexed:
        return _mark(table, Rate(table.world.clock, objects_per_s), skip)
    if held is not None and table.definition.identity is not None:
        return _retain_versions(table, held, skip)
    for left in reversed(range(_TRIES)):
        state = table.log.poll()
        check_held(state, held)
        found = [meta for meta in _old_by_index(table, state) if not is_skipped(meta, skip)]
        if not found:
            break
        try:
            changed = expire(
                table.log,
                table.world,
                [meta.ulid for meta in found],
                MarkReason.RETENTION.value,
                _details(table),
                held=held,
            )
        except NotFound:
            if not left:
                raise
        else:
            return _retained(table, found, version=changed.version)
    return _retained(table, [])


def _old_by_index(table: Table, state: State) -> list[BlockMeta]:
    """The live blocks that are old enough."""
    before_ms = _before_ms(table)
    if before_ms is None or state.dropped is not None:
        return []
    some, _ = state.blocks.summed(lambda leaf: leaf.min_max_time > before_ms)
    old = pc.indices_nonzero(pc.less_equal(some.table()["max_time"], before_ms))
    blocks: list[LiveBlock] = some.take(old.to_pylist())
    return [block.meta for block in blocks if _is_timed_alike(block.meta, table)]


def _old_history(table: Table, state: State, skip: Labels) -> list[BlockMeta]:
    old = old_history(state, table.bucket.now_ms()) if state.dropped is None else []
    return [meta for meta in old if not is_skipped(meta, skip)]


def _retain_versions(table: Table, held: Held, skip: Labels) -> RetentionReport:
    """Where rows have an identity: what is old, and former versions that are no longer kept."""
    gone: list[BlockMeta] = []
    version: int | None = None
    failed: dict[str, str] = {}
    access = Access.of(table.bucket, table.world, table.log)
    cache, left = ShadowCache(), _TRIES
    while True:
        state = table.log.poll()
        check_held(state, held)
        old = [meta for meta in _old_by_index(table, state) if not is_skipped(meta, skip)]
        former, details = _old_history(table, state, skip), _FORMER
        found = [meta for meta in former or old if meta.ulid not in failed]
        if not found:
            return _retained(table, gone, version=version, failed=failed)
        if not former:
            details = _details(table)
        try:
            done = expire_some(
                access,
                state,
                found,
                cache,
                reason=MarkReason.RETENTION.value,
                details=details,
                held=held,
            )
        except (Fenced, HistoryReplaced):
            raise
        except Conflict:
            left -= 1
            if not left:
                raise
        else:
            gone += done.blocks
            version = done.version or version
            failed.update(done.failed)


def _old_by_cover(table: Table) -> tuple[Sight, list[BlockMeta]]:
    """The sight, and the blocks that readers of its listing see and that are old enough."""
    synced = table.catalog.sync()
    sight = Sight(
        listing=synced.listing, found=synced.found, properties=table.definition.properties
    )
    before_ms = _before_ms(table)
    if before_ms is None:
        return sight, []
    chosen = (block.meta for block in listed_of(sight).cover.chosen)
    return sight, [
        meta
        for meta in chosen
        if meta.rows
        and meta.max_time <= before_ms
        and _is_timed_alike(meta, table)
        and sight.found[meta.ulid].mark is None
    ]


def _is_timed_alike(meta: BlockMeta, table: Table) -> bool:
    """Whether the block's times are those of the table's time column; those of another column may
    say nothing about its age."""
    return time_column_of(meta, table.definition) == table.definition.time_column


def _mark(table: Table, rate: Rate, skip: Labels) -> RetentionReport:
    fresh = Freshness(table.world.clock, table.definition.properties.delete_delay_s / 2)
    sight, old = _old_by_cover(table)
    found = [meta for meta in old if not is_skipped(meta, skip)]
    decisions = [
        Decision(
            action=Action.MARK, ulid=meta.ulid, reason=MarkReason.RETENTION, why=_details(table)
        )
        for meta in found
    ]
    directories = {ulid: one.directory for ulid, one in sight.found.items()}
    carried: CarriedOut = carry_out(
        table.bucket, table.world, decisions, directories, rate=rate, fresh=fresh
    )
    done = {one.ulid for one in carried.done}
    return _retained(table, [meta for meta in found if meta.ulid in done], failed=carried.failed)


def _before_ms(table: Table) -> int | None:
    retention_s = table.definition.properties.retention_s
    return None if retention_s is None else table.bucket.now_ms() - round(retention_s * 1000)


def _details(table: Table) -> str:
    retention_s = table.definition.properties.retention_s
    assert retention_s is not None, "blocks are old by a retention"
    return f"all of its rows are older than the retention of {format_duration(retention_s)}"


def _retained(
    table: Table,
    found: list[BlockMeta],
    *,
    version: int | None = None,
    dry_run: bool = False,
    failed: Mapping[str, str] | None = None,
) -> RetentionReport:
    return RetentionReport(
        url=table.url,
        retention_s=table.definition.properties.retention_s,
        before_ms=_before_ms(table),
        blocks=tuple(meta.ulid for meta in found),
        rows=sum(meta.rows for meta in found),
        bytes=sum(meta.bytes for meta in found),
        version=version,
        dry_run=dry_run,
        failed=failed or {},
    )
