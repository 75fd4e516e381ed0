"""The exact cover: which of many overlapping blocks to read, so that every write is read exactly
once.

Rules (protocol 3.2, "the exact cover"):
- Everyone computes the same cover from the same set: it is a pure function of the blocks, never of
  their order.
- Streams are covered one by one; a block of one stream never is in for a block of another.
- Blocks are tried by (revision, descending; number of sources, descending; ULID, ascending).
- A block disjoint from all taken is taken completely; one whose sources are all taken is
  superseded; one that intersects is set aside and, if at the end some of its sources are still
  missing, read for those alone.
- Marks are looked at last: retention, revert and manual hide a chosen block, superseded and partial
  never do, so a marked block still keeps its sources from being read out of another one.

The caller hands in complete, ready blocks only; freshness and damage are ``states.py``'s to decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from blockstore.format.block import BlockMeta, StreamKey
from blockstore.format.marks import MarkReason

HIDING = frozenset({MarkReason.RETENTION, MarkReason.REVERT, MarkReason.MANUAL})
"""The reasons for which a mark hides a chosen block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenBlock:
    """A block to read: completely, or only the rows whose ``_source`` is among ``only_sources``."""

    meta: BlockMeta
    only_sources: frozenset[str] | None = None

    @property
    def sources(self) -> frozenset[str]:
        """The writes that are read out of this block."""
        return frozenset(self.meta.sources) if self.only_sources is None else self.only_sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """The blocks to read, and what became of the others. Every tuple is sorted by ULID."""

    chosen: tuple[ChosenBlock, ...] = ()
    superseded: tuple[BlockMeta, ...] = ()
    hidden: tuple[ChosenBlock, ...] = ()
    partial_overlaps: int = 0
    """Chosen blocks of which other chosen blocks hold a part: a sign that two compactors ran."""

    @property
    def sources(self) -> frozenset[str]:
        """Every source that is accounted for, by a chosen or by a hidden block."""
        return frozenset().union(*(block.sources for block in (*self.chosen, *self.hidden)))


def cover(blocks: Iterable[BlockMeta]) -> Cover:
    """Choose blocks so that each source of ``blocks`` is accounted for exactly once."""
    streams: defaultdict[StreamKey, list[BlockMeta]] = defaultdict(list)
    for meta in {meta.ulid: meta for meta in blocks}.values():
        streams[meta.stream].append(meta)
    chosen: list[ChosenBlock] = []
    superseded: list[BlockMeta] = []
    partial_overlaps = 0
    for stream in streams.values():
        whole, parts, covered = _cover_stream(stream)
        chosen += whole + parts
        superseded += covered
        partial_overlaps += len(parts)
    return Cover(
        chosen=tuple(sorted(chosen, key=_ulid_of)),
        superseded=tuple(sorted(superseded, key=attrgetter("ulid"))),
        partial_overlaps=partial_overlaps,
    )


def hide_marked(found: Cover, marks: Mapping[str, MarkReason]) -> Cover:
    """The cover without the chosen blocks that a mark hides (``marks``:

    ULID to the mark's reason).
    """

    def hidden(block: ChosenBlock) -> bool:
        return marks.get(block.meta.ulid) in HIDING

    return replace(
        found,
        chosen=tuple(block for block in found.chosen if not hidden(block)),
        hidden=tuple(sorted((*found.hidden, *filter(hidden, found.chosen)), key=_ulid_of)),
    )


def restrict(found: Cover, wanted: Callable[[str], bool]) -> Cover:
    """The cover, reading only sources that are ``wanted``; a block left without any is superseded.

    This is how a listing is joined with an index: wanted is what the index does not account for.
    """
    chosen, dropped = _narrow(found.chosen, wanted)
    hidden, dropped_hidden = _narrow(found.hidden, wanted)
    gone = sorted((*found.superseded, *dropped, *dropped_hidden), key=attrgetter("ulid"))
    return replace(found, chosen=chosen, hidden=hidden, superseded=tuple(gone))


def _cover_stream(
    blocks: Iterable[BlockMeta],
) -> tuple[list[ChosenBlock], list[ChosenBlock], list[BlockMeta]]:
    """(taken completely, taken in part, superseded) of one stream."""
    taken: set[str] = set()
    whole: list[ChosenBlock] = []
    aside: list[BlockMeta] = []
    superseded: list[BlockMeta] = []
    for meta in sorted(blocks, key=preference):
        if taken.isdisjoint(meta.sources):
            taken.update(meta.sources)
            whole.append(ChosenBlock(meta=meta))
        elif taken.issuperset(meta.sources):
            superseded.append(meta)
        else:
            aside.append(meta)
    parts: list[ChosenBlock] = []
    for meta in aside:
        missing = frozenset(meta.sources) - taken
        if missing:
            taken |= missing
            parts.append(ChosenBlock(meta=meta, only_sources=missing))
        else:
            superseded.append(meta)
    return whole, parts, superseded


def preference(meta: BlockMeta) -> tuple[int, int, str]:
    """The order in which the cover tries blocks: the least first."""
    return (-meta.revision, -len(meta.sources), meta.ulid)


def _narrow(
    blocks: Iterable[ChosenBlock], wanted: Callable[[str], bool]
) -> tuple[tuple[ChosenBlock, ...], list[BlockMeta]]:
    kept: list[ChosenBlock] = []
    dropped: list[BlockMeta] = []
    for block in blocks:
        left = frozenset(_wanted(block, wanted))
        if not left:
            dropped.append(block.meta)
        elif left == block.sources:
            kept.append(block)
        else:
            kept.append(ChosenBlock(meta=block.meta, only_sources=left))
    return tuple(kept), dropped


def _wanted(block: ChosenBlock, wanted: Callable[[str], bool]) -> Iterator[str]:
    sources = block.meta.sources if block.only_sources is None else block.only_sources
    return (source for source in sources if wanted(source))


def _ulid_of(block: ChosenBlock) -> str:
    return block.meta.ulid
