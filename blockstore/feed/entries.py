"""What an entry did to the rows of a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from blockstore.format.block import BlockKind
from blockstore.index.entry import Entry, Operation
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What the changes of one version have in common."""

    version: int
    time_ms: int
    reason: str | None = None
    """Why rows were removed, or that this is a net difference; None for other changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrote:
    """New rows and changes of rows: nothing was removed or hidden."""

    moment: Moment
    before: State
    blocks: tuple[LiveBlock, ...]

    @property
    def rows(self) -> int:
        """New images and tombstones."""
        return sum(block.meta.rows for block in self.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """Any other change of rows."""

    moment: Moment
    before: State
    after: State
    ulids: frozenset[str] | None = None
    """The blocks that came, went, or are shown otherwise; None where any may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A block, and which of its rows to read."""

    block: LiveBlock
    only: frozenset[str] | None = None
    """The rows of these sources; None = all that are not hidden."""


def effect(before: State, entry: Entry, after: State) -> Wrote | Replaced | None:
    """Return what an entry, between two states, did to rows; None if it changed none."""
    if not (entry.add or entry.remove or entry.excepts):
        return None
    if _only_merges(before, entry, after) or _only_forgets(before, entry):
        return None
    reason = entry.parameters.get("reason") if entry.operation == Operation.EXPIRE else None
    moment = Moment(
        version=after.version,
        time_ms=after.time_ms,
        reason=reason if isinstance(reason, str) else None,
    )
    added = after.blocks.get_all(block.ulid for block in entry.add)
    blocks = tuple(added[block.ulid] for block in entry.add)
    if entry.remove or entry.excepts or not all(_is_new(block, after) for block in blocks):
        ulids = frozenset({*entry.remove, *entry.excepts, *added})
        return Replaced(moment=moment, before=before, after=after, ulids=ulids)
    return Wrote(moment=moment, before=before, blocks=blocks)


def between(replaced: Replaced) -> tuple[tuple[Shown, ...], tuple[Shown, ...]]:
    """Return which rows of which blocks only the earlier state shows, and which only the later."""
    old, new = (
        {
            block.ulid: block
            for block in (
                state.blocks
                if replaced.ulids is None
                else state.blocks.get_all(replaced.ulids).values()
            )
        }
        for state in (replaced.before, replaced.after)
    )
    both = sorted(old.keys() & new.keys())
    return (
        (*_whole(old, old.keys() - new.keys()), *_more(old, new, both)),
        (*_whole(new, new.keys() - old.keys()), *_more(new, old, both)),
    )


def _only_merges(before: State, entry: Entry, after: State) -> bool:
    """Whether the entry only gives rows other blocks; without an identity a merge could bring
    writes that no entry had named before."""
    if entry.operation != Operation.COMPACT:
        return False
    if after.definition.identity is not None:
        return True
    gone = before.blocks.get_all(entry.remove).values()
    came = after.blocks.get_all(block.ulid for block in entry.add).values()
    return _sources(came) == _sources(gone)


def _only_forgets(before: State, entry: Entry) -> bool:
    """Whether the entry only removes former versions, which no query sees."""
    removed = before.blocks.get_all(entry.remove).values()
    is_history = all(block.meta.kind is BlockKind.HISTORY for block in removed)
    return is_history and not (entry.add or entry.excepts)


def _sources(blocks: Iterable[LiveBlock]) -> frozenset[str]:
    return frozenset(source for block in blocks for source in block.meta.sources).difference(
        *(block.excepted for block in blocks)
    )


def _is_new(block: LiveBlock, after: State) -> bool:
    """Whether its rows are new to the table, or changes, as one write has made them."""
    if after.definition.identity is None:
        return not block.excepted
    return block.meta.level == 1 and block.meta.kind is not BlockKind.HISTORY


def _whole(blocks: dict[str, LiveBlock], ulids: Iterable[str]) -> list[Shown]:
    return [Shown(block=blocks[ulid]) for ulid in sorted(ulids)]


def _more(
    blocks: dict[str, LiveBlock], others: dict[str, LiveBlock], ulids: Iterable[str]
) -> list[Shown]:
    """The sources of blocks that the other sight of them hides."""
    found = []
    for ulid in ulids:
        only = others[ulid].excepted - blocks[ulid].excepted
        if only:
            found.append(Shown(block=replace(blocks[ulid], excepted=frozenset()), only=only))
    return found
