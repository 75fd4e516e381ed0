"""The two watermarks that may be raised, and what a new floor must keep (protocol 3.6). Pure.

Rules:
- The horizon never exceeds ULID(store's now - ``partial_delay``). It is raised when there is debris
  that it would condemn, or a floor that waits for it: a pass that finds nothing new writes no
  entry.
- The floor is ``DISCOVER_WINDOW_S`` (30 days) behind, never above a horizon that an entry before
  the listing raised, and moves only where the index would forget something, in steps of a day at
  least.
- ``keep``: the accounted sources at or below the floor that the listing, made after the horizon's
  entry, still shows as a directory or in a directory's sources. Live blocks keep their own by the
  fold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from blockstore.format.properties import Properties
from blockstore.ids import ulid_at, ulid_time_ms
from blockstore.index import ulids
from blockstore.index.batches import is_forgotten
from blockstore.index.state import State
from blockstore.lifecycle.by_index import ByIndex
from blockstore.lifecycle.sight import Sight

DISCOVER_WINDOW_S = 30 * 24 * 3600
"""For so long after its writing a block may be discovered: devices ship late."""

_STEP_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """A floor to commit."""

    floor: str
    keep: tuple[str, ...]


def horizon_at(now_ms: int, properties: Properties) -> str:
    """As high as the horizon may be at a time of the store's clock: no earlier horizon is above
    it."""
    return ulid_at(max(0, now_ms - int(properties.partial_delay_s * 1000)))


def highest_horizon(sight: Sight) -> str:
    """As high as the horizon may be now."""
    return horizon_at(sight.now_ms, sight.properties)


def horizon_to_raise(sight: Sight) -> str | None:
    """The horizon to commit before anything below it is marked;

    None where that would condemn nothing.
    """
    state = sight.state
    if state is None:
        return None
    highest = highest_horizon(sight)
    if state.below_horizon(highest):
        return None
    floor = _due_floor(sight, state)
    if floor is not None and not state.below_horizon(floor):
        return highest
    before, after = ByIndex(sight, state), ByIndex(sight, state, horizon=highest)
    condemned = (
        after.to_mark(one).goes and not before.to_mark(one).goes
        for ulid, one in sight.found.items()
        if ulid <= highest
    )
    return highest if any(condemned) else None


def floor_to_raise(sight: Sight, horizon_before: str | None) -> Floor | None:
    """The floor to commit, given the horizon that was known before the sight's listing was
    requested."""
    state = sight.state
    floor = None if state is None else _due_floor(sight, state)
    if state is None or floor is None or horizon_before is None or floor > horizon_before:
        return None
    shown = ulids.unique(ulids.from_texts(_shown(sight, floor)))
    kept = state.accounted.held(ulids.to_texts(shown))
    return Floor(floor=floor, keep=tuple(kept))


def _due_floor(sight: Sight, state: State) -> str | None:
    """The floor that is wanted; None where it would hardly move, or forget nothing."""
    now_ms = sight.now_ms - DISCOVER_WINDOW_S * 1000
    if now_ms <= 0 or (state.floor is not None and now_ms - ulid_time_ms(state.floor) < _STEP_MS):
        return None
    floor = ulid_at(now_ms)
    if any(is_forgotten(app, floor) for app in state.batches):
        return floor
    below = state.accounted.upto(floor)
    kept = ulids.unique(ulids.from_texts(_shown(sight, floor)), state.blocks.sources(floor))
    return None if ulids.holds(kept, below).all() else floor


def _shown(sight: Sight, floor: str) -> Iterator[str]:
    """What the listing shows at or below the floor: names of directories, and sources of their
    metas."""
    yield from (ulid for ulid in sight.listing.directories if ulid <= floor)
    for one in sight.found.values():
        if one.meta is not None:
            yield from (source for source in one.meta.sources if source <= floor)
