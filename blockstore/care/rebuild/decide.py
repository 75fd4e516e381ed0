"""Decide which blocks a rebuilt index has, each with a reason. Pure.

The index is the truth about a table. If it is lost, the blocks show some of it, but not all. Rules:
- A named block stays, unless it was marked after the last state that can be read: the compactor
  only marks blocks that no version names any more, so a lost entry took it out.
- A write of an ordinary append (``visible_by: age``) was acknowledged when it was complete. It is
  taken, unless the readable part of the index accounts for it (then an entry took it out), it is
  marked, or it is below the floor.
- A block of a transaction (``visible_by: index``) counts only by its entry, which is lost. It was
  certainly committed if another complete block was made of it, or if writes that it accounts for
  exist nowhere else. A merge of blocks that all still exist has the same rows as they. Any other is
  uncertain: it is taken, because meta.json is written last and the entry follows within a moment,
  and it is reported, so that a person can leave it out.
- A transaction that no entry names was never committed if it is below the horizon, or was complete
  an hour before the last state that can be read. Of two blocks of one job one was committed.
- Changes of rows that no entry names count only if a person says so: their order matters, and only
  the lost entries said it.
- Where blocks overlap, the exact cover decides (3.2). In an index live blocks never share a source
  (3.3), so a block that could only be read in part stops the rebuild until a person leaves one side
  out. So does a block that cannot be read and whose writes no other block has. A named block of
  which nothing is left is reported with its rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from blockstore.care.rebuild.evidence import NO_META, Evidence, Known
from blockstore.errors import Invalid
from blockstore.format.block import BlockKind, BlockMeta, Job, VisibleBy
from blockstore.format.identity import ROW_ID
from blockstore.lifecycle.cover import Cover, cover

_MERGER = "compactor"
_SETTLED_MS = 3_600_000
"""A program commits its upload within moments, and gives up after a minute."""


class Verdict(StrEnum):
    """What becomes of a block."""

    TAKE = "take"
    LEAVE = "leave"
    STOP = "stop"
    """A person must decide before anything is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The decision about one block."""

    ulid: str
    verdict: Verdict
    why: str
    known: Known
    sure: bool = True
    """False if it is uncertain: a person should check it."""

    @property
    def rows(self) -> int | None:
        """Its number of rows, if it is known."""
        return None if self.known.meta is None else self.known.meta.rows


def decide(
    evidence: Evidence,
    leave_out: frozenset[str] = frozenset(),
    take: frozenset[str] = frozenset(),
) -> tuple[Judged, ...]:
    """Decide about every block, sorted by ULID.

    Raises Invalid if ``leave_out`` or ``take`` names a block that does not exist, or both one.
    """
    for names, what in ((leave_out, "leave out"), (take, "take")):
        strange = sorted(names - evidence.blocks.keys())
        if strange:
            raise Invalid(
                f"there is no block {strange[0]} to {what}: the plan of the rebuild lists all "
                "blocks"
            )
    both = sorted(leave_out & take)
    if both:
        raise Invalid(f"block {both[0]} is to be left out and taken: decide for one of them")
    deciding = _Deciding(evidence, leave_out, take)
    return tuple(sorted(deciding.run(), key=lambda one: one.ulid))


class _Deciding:
    def __init__(self, evidence: Evidence, leave_out: frozenset[str], take: frozenset[str]) -> None:
        self._evidence = evidence
        self._leave_out = leave_out
        self._take = take
        self._made_of = {
            name
            for one in evidence.blocks.values()
            if one.meta is not None and one.is_complete
            for name in (*(parent.ulid for parent in one.meta.parents), *one.meta.sources)
            if name != one.ulid
        }

    def run(self) -> Iterator[Judged]:
        out = {one.ulid: one for one in self._first()}
        yield from out.values()
        candidates = {ulid: one for ulid, one in self._evidence.blocks.items() if ulid not in out}
        whole = {
            ulid: one
            for ulid, one in candidates.items()
            if one.is_complete or (one.named and not one.gone)
        }
        found = cover(one.meta for one in whole.values() if one.meta is not None)
        yield from self._covered(whole, found, _shared_between_streams(found))
        yield from self._unreadable(
            [one for ulid, one in candidates.items() if ulid not in whole], found.sources
        )

    def _first(self) -> Iterator[Judged]:
        """Yield the blocks that are left out regardless of the others."""
        jobs: dict[Job, str] = {}
        likely = lambda one: (one.named is None, one.ulid not in self._made_of, one.ulid)  # noqa: E731
        for one in sorted(self._evidence.blocks.values(), key=likely):
            why = self._why_out(one)
            if why is not None:
                yield _judged(one, Verdict.LEAVE, why)
            elif one.meta is not None and one.meta.job is not None and one.is_complete:
                first = jobs.setdefault(one.meta.job, one.ulid)
                if first != one.ulid:
                    twin = (
                        f"block {first} belongs to the same job, and only one of them was committed"
                    )
                    yield _judged(one, Verdict.LEAVE, twin, sure=False)

    def _why_out(self, one: Known) -> str | None:
        evidence, meta = self._evidence, one.meta
        if one.ulid in self._leave_out:
            return "left out by --leave-out"
        if one.mark is not None:
            return f"marked for deletion ({one.mark}): no version had it any more"
        if one.named is not None:
            return None
        if one.ulid in evidence.removed:
            return "an entry that can still be read removed it"
        if meta is None:
            if one.problem == NO_META:
                return "an unfinished upload"
            return "the index accounts for it" if evidence.accounts(one.ulid) else None
        if all(evidence.accounts(source) for source in meta.sources) and self._is_dead(meta):
            return "an entry that can still be read accounts for its writes without it"
        return self._why_late(one, meta)

    def _is_dead(self, meta: BlockMeta) -> bool:
        """Return whether an unnamed block cannot be the holder of its accounted writes."""
        return meta.visible_by is VisibleBy.AGE or meta.sources == (meta.ulid,)

    def _why_late(self, one: Known, meta: BlockMeta) -> str | None:
        state = self._evidence.state
        if state is None:
            return None
        if meta.visible_by is VisibleBy.INDEX:
            if state.below_horizon(meta.ulid):
                return (
                    "no entry names it, and it is at or below the horizon: it was never committed"
                )
            if meta.job is not None and state.committed(meta.job):
                return "its job was committed with another block"
            if one.complete_ms is not None and one.complete_ms < state.time_ms - _SETTLED_MS:
                return (
                    "it was complete long before the last version that can be read, which does not "
                    "have it"
                )
            return None
        if state.below_floor(meta.ulid) or any(map(state.below_floor, meta.sources)):
            return "at or below the floor: it came too late, and can be adopted afterwards"
        return None

    def _covered(
        self, whole: Mapping[str, Known], found: Cover, twins: Mapping[str, str]
    ) -> Iterator[Judged]:
        holders = Counter(
            source for one in whole.values() if one.meta is not None for source in one.meta.sources
        )
        for meta in found.superseded:
            yield _judged(whole[meta.ulid], Verdict.LEAVE, "others hold its rows")
        for block in found.chosen:
            one = whole[block.meta.ulid]
            if block.only_sources is not None:
                others = [
                    other.meta.ulid
                    for other in found.chosen
                    if other is not block and not other.sources.isdisjoint(block.meta.sources)
                ]
                why = (
                    f"only this block has {len(block.only_sources)} of its writes (such as "
                    f"{min(block.only_sources)}), and blocks "
                )
                why += f"{', '.join(others)} have the others: leave this one out, or those"
                yield _judged(one, Verdict.STOP, why)
            elif one.ulid in twins:
                why = (
                    f"block {twins[one.ulid]} of another stream accounts for the same write: "
                    "leave one of them out"
                )
                yield _judged(one, Verdict.STOP, why)
            else:
                yield self._taken(one, holders)

    def _taken(self, one: Known, holders: Mapping[str, int]) -> Judged:
        meta = one.meta
        assert meta is not None, "only blocks with a known meta are covered"
        if one.named is not None:
            why = f"entry {one.named.version} named it"
            return _judged(
                one,
                Verdict.TAKE,
                why if one.problem is None else f"{why}; it is damaged: {one.problem}",
            )
        if meta.kind is BlockKind.CHANGES and meta.level == 1:
            return self._changes(one, meta)
        if meta.visible_by is VisibleBy.AGE:
            return _judged(one, Verdict.TAKE, "a complete append")
        if one.ulid in self._made_of:
            return _judged(one, Verdict.TAKE, "committed: another block was made of it")
        foreign = [source for source in meta.sources if source != one.ulid]
        if any(holders[source] == 1 for source in foreign):
            return _judged(one, Verdict.TAKE, "committed: some of its writes exist nowhere else")
        if foreign and meta.producer == _MERGER:
            return _judged(
                one, Verdict.TAKE, "a merge: the same rows as the blocks that it was made of"
            )
        why = (
            "it is not known whether it was committed: leave it out if the program that wrote it "
            "got an error"
        )
        if foreign:
            why += f"; it replaces {len(foreign)} other writes"
        return _judged(one, Verdict.TAKE, why, sure=False)

    def _changes(self, one: Known, meta: BlockMeta) -> Judged:
        """Judge changes of rows that no entry names: whether they count, and after which others, is
        known by a person alone."""
        given = 0 if self._evidence.state is None else self._evidence.state.next_row_id
        bounds = (chunk.columns.get(ROW_ID) for chunk in meta.chunks)
        highest = [stats.max for stats in bounds if stats is not None]
        if any(isinstance(row, int) and row >= given for row in highest):
            why = (
                "it changes rows whose ids were given by entries that are lost, so these rows are "
                "not known any more: leave it out, and write the changes again"
            )
            return _judged(one, Verdict.STOP, why)
        if one.ulid in self._take:
            return _judged(one, Verdict.TAKE, "taken by --take: newer than all earlier changes")
        why = (
            "it changes rows, and it is not known whether it was committed, nor before which other "
            "changes: take it (--take), and its rows count as newer than those of all blocks that "
            "an entry names or that were merged, or leave it out"
        )
        return _judged(one, Verdict.STOP, why)

    def _unreadable(self, blocks: Iterable[Known], held: frozenset[str]) -> Iterator[Judged]:
        for one in blocks:
            sources = (one.ulid,) if one.meta is None else one.meta.sources
            if held.issuperset(sources):
                yield _judged(one, Verdict.LEAVE, f"{one.problem}; others hold its rows")
            elif one.gone:
                yield _judged(
                    one,
                    Verdict.LEAVE,
                    "an entry named it, but nothing of it is left: it was removed, or lost",
                    sure=False,
                )
            else:
                why = (
                    f"it cannot be read, and no other block has its rows ({one.problem}): repair "
                    "it from a replica, or leave it out"
                )
                yield _judged(one, Verdict.STOP, why)


def _shared_between_streams(found: Cover) -> dict[str, str]:
    """Return chosen blocks that share a write with one of another stream.

    The cover does not check that.
    """
    holder: dict[str, str] = {}
    twins = {}
    for block in found.chosen:
        for source in block.sources:
            first = holder.setdefault(source, block.meta.ulid)
            if first != block.meta.ulid:
                twins[block.meta.ulid] = first
    return twins


def _judged(one: Known, verdict: Verdict, why: str, *, sure: bool = True) -> Judged:
    return Judged(ulid=one.ulid, verdict=verdict, why=why, known=one, sure=sure)
