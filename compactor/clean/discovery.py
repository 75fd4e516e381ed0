"""Discovery: committing aged blocks that no entry names to the index (protocol 3.6).

Rules:
- In the order of the cover, up to a fixed number per commit; the index judges for each block
  whether it enters.
- A block that cannot enter is reported and keeps no other out: if a commit is refused, each of its
  blocks is tried alone.
- Fenced stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from blockstore.errors import Conflict, Fenced, HistoryReplaced, Invalid
from blockstore.format.block import BlockMeta
from blockstore.index.change import Discover, Left
from blockstore.index.epochs import Held
from blockstore.index.log import Log
from blockstore.world import World

_BLOCKS = 500
"""Blocks in one entry: it stays a few MiB, however many blocks a device ships at once."""

_LEFT_OUT = "other blocks account for some of its sources, or the table does not have its schema"


@dataclass(slots=True)
class Published:
    """The blocks that entered the index, and those that a person must decide about: ULID to why."""

    blocks: list[str] = field(default_factory=list)
    quarantined: dict[str, str] = field(default_factory=dict)


def publish(log: Log, world: World, held: Held, blocks: Sequence[BlockMeta]) -> Published:
    """Commit these blocks. Raises Fenced, Unavailable or Indeterminate; the next pass finds the
    rest."""
    published = Published()
    for start in range(0, len(blocks), _BLOCKS):
        part = blocks[start : start + _BLOCKS]
        try:
            _commit(log, world, held, part, published)
        except (Fenced, HistoryReplaced):
            raise
        except (Conflict, Invalid):
            for block in part:
                _alone(log, world, held, block, published)
    return published


def _alone(log: Log, world: World, held: Held, block: BlockMeta, published: Published) -> None:
    try:
        _commit(log, world, held, [block], published)
    except (Fenced, HistoryReplaced):
        raise
    except (Conflict, Invalid) as error:
        published.quarantined[block.ulid] = str(error)


def _commit(
    log: Log, world: World, held: Held, blocks: Sequence[BlockMeta], published: Published
) -> None:
    change = Discover(commit=world.ids.ulid(), epoch=held.epoch, blocks=tuple(blocks))
    committed = log.commit(change)
    published.blocks += [block.ulid for block in blocks if block.ulid not in committed.left]
    published.quarantined.update(
        {ulid: _LEFT_OUT for ulid, left in committed.left.items() if left is Left.QUARANTINED}
    )
