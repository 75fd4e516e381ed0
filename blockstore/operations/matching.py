"""Which blocks hold rows that a condition is true for, and what is to become of each of their
chunks.

Rules:
- A block, and a stream, that its labels, times or statistics exclude is not read at all; nor is a
  chunk whose statistics say that every row matches. Of the others only the columns of the condition
  are read.
- A row matches only if the condition is *true* for it: unknown (null) is not true, so the row
  stays.
- Rows of excepted sources are not in view: they neither match nor keep a block.
- A block all of whose rows in view match is removed; one of which some match is to be rewritten
  without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import pyarrow.compute as pc

from blockstore.format.block import BlockMeta
from blockstore.index.rows import LiveBlock
from blockstore.lifecycle.cover import ChosenBlock
from blockstore.operations.access import Access
from blockstore.operations.view import View
from blockstore.predicate import Predicate
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.execute import count_each
from blockstore.scan.plan import ScanPlan, plan_scan


class Fate(StrEnum):
    """What becomes of the rows of one chunk that are in view."""

    KEEP = "keep"
    DROP = "drop"
    FILTER = "filter"
    """Those that match go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """A block with rows that match."""

    block: LiveBlock | ChosenBlock
    """As the index names it, or, if it does not, as the listing shows it."""
    fates: Mapping[str, Fate]
    """By the chunk's path; every chunk of the block."""
    rows: int | None
    """How many rows match; None where that was not counted, because every row in view does."""

    @property
    def meta(self) -> BlockMeta:
        """The block."""
        return self.block.meta

    @property
    def excepted(self) -> frozenset[str]:
        """The sources hidden in it by the index."""
        return self.block.excepted if isinstance(self.block, LiveBlock) else frozenset()

    @property
    def whole(self) -> bool:
        """Whether every row in view matches."""
        return all(fate is Fate.DROP for fate in self.fates.values())

    @property
    def known(self) -> bool:
        """Whether the index names it."""
        return isinstance(self.block, LiveBlock)


def matching(
    access: Access, view: View, predicate: Predicate, labels: Iterable[str] = ()
) -> tuple[Touched, ...]:
    """Every block of the view with matching rows, in the order of their ULIDs;

    ``labels`` as in ``plan_scan``.
    """
    if predicate.everything:
        every = sorted((*view.state.blocks, *view.unpublished), key=lambda block: block.meta.ulid)
        return tuple(_whole(block) for block in every)
    plan = plan_scan(view.snapshot, columns=["_source"], where=predicate, labels=labels)
    bucket, world = access.bucket, access.world
    counts = count_each(bucket, replace(plan, chunks=_uncertain(plan)), world)
    matched = dict(zip((chunk.key for chunk in _uncertain(plan)), counts, strict=True))
    seen = count_each(bucket, _in_view(plan, matched), world)
    in_view = dict(zip((chunk.key for chunk in _in_view(plan, matched).chunks), seen, strict=True))
    by_block: dict[str, list[ScanChunk]] = {}
    for chunk in plan.chunks:
        by_block.setdefault(chunk.block, []).append(chunk)
    blocks: dict[str, LiveBlock | ChosenBlock] = {**view.state.blocks.get_all(by_block)}
    blocks.update({block.meta.ulid: block for block in view.unpublished})
    touched = (
        _touched(blocks[ulid], chunks, matched, in_view)
        for ulid, chunks in sorted(by_block.items())
    )
    return tuple(one for one in touched if one is not None)


def untrue(predicate: Predicate) -> Predicate:
    """The condition that is true for exactly the rows for which ``predicate`` is not: false, or
    unknown."""
    return Predicate(
        extra=~pc.coalesce(predicate.expression, pc.scalar(False)), extra_columns=predicate.columns
    )


def _whole(block: LiveBlock | ChosenBlock) -> Touched:
    """All of a block: how many rows are in view is known only where none is hidden."""
    hidden = block.excepted if isinstance(block, LiveBlock) else block.only_sources
    rows = block.meta.rows if not hidden else 0 if block.meta.level == 1 else None
    return Touched(
        block=block, fates={file.path: Fate.DROP for file in block.meta.chunks}, rows=rows
    )


def _uncertain(plan: ScanPlan) -> tuple[ScanChunk, ...]:
    """The chunks that must be read to count the rows that match."""
    return tuple(chunk for chunk in plan.chunks if not chunk.certain)


def _in_view(plan: ScanPlan, matched: Mapping[str, int]) -> ScanPlan:
    """The plan that counts all rows in view of chunks that have some that match and some that are
    hidden."""
    chunks = tuple(
        replace(chunk, certain=True)
        for chunk in plan.chunks
        if chunk.filtered and matched.get(chunk.key)
    )
    return replace(plan, chunks=chunks)


def _touched(
    block: LiveBlock | ChosenBlock,
    chunks: list[ScanChunk],
    matched: Mapping[str, int],
    in_view: Mapping[str, int],
) -> Touched | None:
    """What the counts say of one block; None if no row of it matches."""
    fates = {file.path: Fate.KEEP for file in block.meta.chunks}
    rows: int | None = 0
    for chunk in chunks:
        count = matched.get(chunk.key)
        if count is None:
            count = None if chunk.filtered else chunk.file.rows
        if count == 0:
            continue
        every = count is None or count == in_view.get(chunk.key, chunk.file.rows)
        fates[chunk.file.path] = Fate.DROP if every else Fate.FILTER
        rows = None if rows is None or count is None else rows + count
    found = any(fate is not Fate.KEEP for fate in fates.values())
    return Touched(block=block, fates=fates, rows=rows) if found else None
