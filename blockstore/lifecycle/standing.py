"""What the index says of a block that a listing shows: pure, over one state.

Rules (protocol 3.3 step 1, 3.6):
- A block is accounted for if all of its sources are; its own name counts for nothing.
- ``index`` blocks are condemned at or below the horizon; ``age`` blocks are late if they, or any of
  their sources, are at or below the floor and are not accounted for.
"""

from __future__ import annotations

from collections.abc import Callable

from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.index.state import State
from blockstore.lifecycle.states import Standing


def standing_of(ulid: str, meta: BlockMeta | None, state: State | None) -> Standing:
    """The standing of a directory;

    ``meta`` is None where its meta.json is missing or cannot be read.
    """
    if state is None:
        return Standing.NO_INDEX
    if ulid in state.blocks:
        return Standing.LIVE
    sources = (ulid,) if meta is None else meta.sources
    if len(state.accounted.held(sources)) == len(sources):
        return Standing.ACCOUNTED
    if meta is None:
        return Standing.UNKNOWN
    if meta.visible_by is VisibleBy.INDEX:
        return Standing.CONDEMNED if state.below_horizon(ulid) else Standing.UNKNOWN
    if state.below_floor(ulid) or any(map(state.below_floor, sources)):
        return Standing.LATE
    return Standing.UNKNOWN


def is_known(ulid: str, state: State | None) -> bool:
    """Whether the index alone decides on a block of this name, so that its meta.json need not be
    read.

    A name that is accounted for as a source belongs to a level-1 block, which has no other source,
    or to one that is visible only by the index.
    """
    return state is not None and (ulid in state.blocks or ulid in state.accounted)


def wanted_from_listing(state: State | None) -> Callable[[str], bool]:
    """Whether a listing's block is to be read for a source: it is above the floor and is not
    accounted for."""
    if state is None:
        return lambda source: True
    return lambda source: not state.below_floor(source) and source not in state.accounted
