"""``expire``: entire live blocks leave the table - one index entry, and no rows are read or
written.

What retention commits, and what a person's deletion mark on a live block becomes. The sources stay
accounted, so nothing brings the rows back; the blocks themselves go once no version names them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from blockstore.errors import Conflict, Fenced, HistoryReplaced
from blockstore.index.change import Expire
from blockstore.index.entry import Operation
from blockstore.index.epochs import Held
from blockstore.index.log import Log
from blockstore.operations.conditions import check_said
from blockstore.operations.results import Changed
from blockstore.operations.rewrite import live_blocks
from blockstore.world import World

_TRIES = 5


def expire(
    log: Log,
    world: World,
    ulids: Iterable[str],
    reason: str,
    details: str = "",
    *,
    held: Held | None = None,
    message: str = "",
    dry_run: bool = False,
) -> Changed:
    """Remove these live blocks. ``held`` is the role in whose name it is done.

    Raises NotFound if one is not live, or no longer (it was merged, or removed), Fenced if the role
    has another holder; then nothing is changed.
    """
    check_said(None, message)
    wanted = [ulids] if isinstance(ulids, str) else list(ulids)
    commit = world.ids.ulid()
    for left in reversed(range(_TRIES)):
        read, blocks = live_blocks(log, wanted)
        counts = [None if block.excepted else block.meta.rows for block in blocks]
        answer = Changed(
            operation=str(Operation.EXPIRE),
            dry_run=dry_run,
            removed=tuple(block.ulid for block in blocks),
            rows_removed=None
            if None in counts
            else sum(count for count in counts if count is not None),
            bytes_removed=sum(block.meta.bytes for block in blocks),
        )
        if dry_run:
            return answer
        change = Expire(
            commit=commit,
            read={block.ulid: block.excepted for block in blocks},
            reason=reason,
            details=details,
            read_version=read.version,
            role=None if held is None else held.role,
            epoch=None if held is None else held.epoch,
            message=message,
        )
        try:
            committed = log.commit(change)
        except (Fenced, HistoryReplaced):
            raise
        except Conflict:
            # Reverted or merged since it was looked at: look again.
            if not left:
                raise
        else:
            return replace(answer, version=committed.version)
    raise AssertionError("every try ends in a result or an error")
