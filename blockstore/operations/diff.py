"""``diff``: what lies between two versions of a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blockstore.format.block import BlockMeta
from blockstore.index.blocks import LiveBlock
from blockstore.index.state import State

__all__ = ["Diff", "diff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The blocks that one version has and the other has not, each sorted by ULID.

    ``excepted`` names, for blocks in both, the sources hidden in ``after`` and not in ``before``. ``rows`` is the
    difference of the blocks' rows; a merge has 0. ``schema_changed`` says whether the definition differs.
    """

    before: int
    after: int
    added: tuple[BlockMeta, ...]
    removed: tuple[BlockMeta, ...]
    excepted: Mapping[str, tuple[str, ...]]
    rows: int
    schema_changed: bool


def diff(before: State, after: State) -> Diff:
    """How to come from ``before`` to ``after``."""
    old = {block.ulid: block for block in before.blocks}
    new = {block.ulid: block for block in after.blocks}
    added = tuple(new[ulid].meta for ulid in sorted(new.keys() - old.keys()))
    removed = tuple(old[ulid].meta for ulid in sorted(old.keys() - new.keys()))
    return Diff(
        before=before.version,
        after=after.version,
        added=added,
        removed=removed,
        excepted={
            ulid: hidden
            for ulid in sorted(new.keys() & old.keys())
            if (hidden := _newly_hidden(old[ulid], new[ulid]))
        },
        rows=sum(meta.rows for meta in added) - sum(meta.rows for meta in removed),
        schema_changed=before.definition != after.definition,
    )


def _newly_hidden(old: LiveBlock, new: LiveBlock) -> tuple[str, ...]:
    return tuple(sorted(new.excepted - old.excepted))
