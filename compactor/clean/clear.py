"""Clearing a dropped table: one entry takes all blocks and tags out of it, once ``delete_delay``
has passed since the drop.

Rules (``index/dropped.py``):
- Until then nothing is discovered, expired or merged, so that an undrop finds the table as it was.
- The entry also accounts for the writes that only a listing shows: no entry will ever name them,
  and their blocks go like all others. Those that are listed later, from a device or a writer that
  stalled, are accounted for by later passes.
- The index itself stays: a few small objects, by which the next table at this URL continues.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.format.features import DROP
from blockstore.index.change import Change, Done, Draft
from blockstore.index.entry import Epoch, Operation
from blockstore.index.epochs import Held
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.lifecycle.discoverable import discoverable
from blockstore.lifecycle.sight import Sight
from blockstore.world import World


@dataclass(kw_only=True)
class Clear(Change):
    """Take everything out of a dropped table, and account for these sources, which only a listing
    shows."""

    operation: Operation = Operation.CLEAR
    commit: str
    role: str | None
    epoch: Epoch | None
    dropped: int
    """The version that dropped the table: it may be another drop by now."""
    account: tuple[str, ...] = ()

    def draft(self, state: State) -> Draft | Done:
        if state.dropped is None or state.dropped.version != self.dropped:
            return Done()
        account = tuple(one for one in self.account if not state.accounted.held([one]))
        if state.dropped.cleared is not None and not account:
            return Done()
        return Draft(
            remove=tuple(state.blocks.ulids()),
            tags=dict.fromkeys(sorted(state.tags)),
            account=account,
            requires=(DROP,),
            parameters={"dropped": self.dropped},
        )


def clear(log: Log, world: World, held: Held, sight: Sight, state: State) -> int | None:
    """Clear the table if its drop is old enough, and return the version that did it."""
    dropped = state.dropped
    if dropped is None or not is_due(state, sight.now_ms):
        return None
    sources = {source for meta in discoverable(sight, state).blocks for source in meta.sources}
    change = Clear(
        commit=world.ids.ulid(),
        role=held.role,
        epoch=held.epoch,
        dropped=dropped.version,
        account=tuple(sorted(sources)),
    )
    return log.commit(change).version


def is_due(state: State, now_ms: int) -> bool:
    """Whether a dropped table can be brought back no longer, by the store's clock."""
    delay_ms = round(state.definition.properties.delete_delay_s * 1000)
    return state.dropped is not None and now_ms - state.dropped.time_ms >= delay_ms
