"""``diff``: what is between two versions of a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blockstore.format.block import BlockMeta
from blockstore.index.rows import LiveBlock, visible_rows
from blockstore.index.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The blocks that one version has and the other does not, each sorted by ULID; and what is
    hidden in those that stay.

    ``rows`` is how many rows more a reader of ``after`` sees, and 0 for a merge; None where sources
    are hidden in a merged block, so that only reading shows it. ``schema_changed`` says whether the
    definition differs.
    """

    before: int
    after: int
    added: tuple[BlockMeta, ...]
    removed: tuple[BlockMeta, ...]
    excepted: Mapping[str, tuple[str, ...]]
    """By block of ``after``: the sources that are hidden in it, and were not in ``before``."""
    shown: Mapping[str, tuple[str, ...]]
    """By block of both: the sources that were hidden in it, and no longer are."""
    rows: int | None
    schema_changed: bool


def diff(before: State, after: State) -> Diff:
    """How to come from ``before`` to ``after``."""
    old = {block.ulid: block for block in before.blocks}
    new = {block.ulid: block for block in after.blocks}
    both = sorted(new.keys() & old.keys())
    changed = [ulid for ulid in both if new[ulid].excepted != old[ulid].excepted]
    added, removed = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
    more = visible_rows(new[ulid] for ulid in (*added, *changed))
    less = visible_rows(old[ulid] for ulid in (*removed, *changed))
    return Diff(
        before=before.version,
        after=after.version,
        added=tuple(new[ulid].meta for ulid in added),
        removed=tuple(old[ulid].meta for ulid in removed),
        excepted={
            ulid: hidden
            for ulid in sorted((*added, *changed))
            if (hidden := _hidden(new[ulid].excepted, old.get(ulid)))
        },
        shown={
            ulid: shown for ulid in changed if (shown := _hidden(old[ulid].excepted, new[ulid]))
        },
        rows=None if more is None or less is None else more - less,
        schema_changed=before.definition != after.definition,
    )


def _hidden(sources: frozenset[str], other: LiveBlock | None) -> tuple[str, ...]:
    """Those of the sources that the other version of the block does not hide."""
    return tuple(sorted(sources if other is None else sources - other.excepted))
