"""What a folder's state says was shipped, against the table at that URL now: one may be lost, and
another made there.

Rules:
- With an index a line is believed where the table accounts for the block's sources, where it may
  have forgotten them (the block lies at or below the floor), or where the block lies in the table;
  one that is not believed is dropped, and the block shipped again. What was removed on purpose is
  accounted for, so nothing comes back.
- Without an index a line is looked at before a removal only. One whose block is gone is dropped
  where other blocks hold its rows; else nobody can tell a lost table from a block that a person
  took out: it stays, and a person is told.
- The floor is no witness for a removal: the table must account for the block, or have it. What it
  can neither is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from blockstore.bucket.api import ReadBucket, is_there
from blockstore.care.ship.state import Sent
from blockstore.index.state import State
from blockstore.names import meta_key
from blockstore.world import World

__all__ = ["Looked", "look_at_lines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The lines of one table, by block."""

    there: frozenset[str] = frozenset()
    """The table bears them out."""
    gone: frozenset[str] = frozenset()
    """It was asked for them and does not have them."""
    forgotten: frozenset[str] = frozenset()
    """An index may have known of them and forgotten: they lie at or below its floor."""


def look_at_lines(
    bucket: ReadBucket,
    world: World,
    lines: Mapping[str, Sent],
    sources_of: Callable[[str], tuple[str, ...]],
    state: State | None,
    *,
    removing: bool,
) -> Looked:
    """Compare the lines with the table in ``bucket``; ``state`` is its index's. What the index
    accounts for costs no request, anything else a HEAD at most."""
    there: set[str] = set()
    forgotten: set[str] = set()
    asked: list[str] = []
    for ulid, sent in lines.items():
        if state is not None:
            # A level-1 block is its own source: its meta.json need not be read.
            sources = (ulid,) if ulid in state.accounted else sources_of(ulid)
            if len(state.accounted.held(sources)) == len(sources):
                there.add(ulid)
                continue
            if any(map(state.below_floor, (sent.lies_as, *sources))):
                forgotten.add(ulid)
        if (removing and not sent.late) or (state is not None and ulid not in forgotten):
            asked.append(ulid)
    lying = {
        ulid
        for ulid, lies in zip(
            asked,
            world.pool.map(lambda ulid: is_there(bucket, meta_key(lines[ulid].lies_as)), asked),
            strict=True,
        )
        if lies
    }
    return Looked(
        there=frozenset(there | lying),
        gone=frozenset({*asked} - lying),
        forgotten=frozenset(forgotten),
    )
