"""Which blocks of a listing the compactor may bring into the index (discover, protocol 3.6). Pure.

Rules:
- Only complete, unmarked ``visible_by: age`` blocks whose wait is over (R2). A mark, whatever its
  reason, keeps a block out until it is withdrawn (R4).
- Above the floor, with all of its sources: below it a person decides.
- In the order of the cover: each counts as accounted for the next.
- A block of whose sources the index accounts for some is named, not added: its other rows are a
  person's to decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from blockstore.format.block import BlockMeta
from blockstore.index.state import State
from blockstore.lifecycle.cover import preference
from blockstore.lifecycle.sight import Sight
from blockstore.lifecycle.standing import standing_of
from blockstore.lifecycle.states import Standing
from blockstore.names import DELETION_MARK


@dataclass(frozen=True, slots=True, kw_only=True)
class Discoverable:
    """What can be added, in this order, and what is left to a person: ULID to why."""

    blocks: tuple[BlockMeta, ...] = ()
    quarantined: dict[str, str] = field(default_factory=dict)


def discoverable(sight: Sight, state: State) -> Discoverable:
    """The blocks of the sight that the index does not know and may."""
    found: list[BlockMeta] = []
    partly: dict[str, str] = {}
    for ulid, one in sight.found.items():
        meta = one.meta
        if meta is None or not sight.is_ready(one) or DELETION_MARK in one.directory.objects:
            continue
        if (
            sight.named_by(ulid) is not None
            or standing_of(ulid, meta, state) is not Standing.UNKNOWN
        ):
            continue
        held = len(state.accounted.held(meta.sources))
        if held:
            partly[ulid] = (
                f"the index accounts for {held:,} of its {len(meta.sources):,} sources otherwise, "
                "so it cannot be added"
            )
        else:
            found.append(meta)
    return Discoverable(blocks=tuple(sorted(found, key=preference)), quarantined=partly)
