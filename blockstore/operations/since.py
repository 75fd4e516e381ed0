"""What a transaction that was begun earlier is about, and what came after it was begun. Pure.

Rules:
- A write that the index accounted for, or that a complete block held, when the transaction was
  begun is its to replace.
- A write that came later follows it, in whatever block it is by now.
- A block that holds writes of both kinds, and rows that the transaction could be about, is a
  Conflict: part of its rows would go and part would stay, and the operation was begun without
  knowing the second part.
- A caller that has ``read`` the version and computed new rows from it would bring back what others
  removed since: such rows are a Conflict (``Gone``), whatever the isolation. For a delete they are
  one only if it is ``serializable``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from blockstore.errors import Conflict
from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.index.entry import Entry, Operation
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.lifecycle.cover import ChosenBlock
from blockstore.operations.scope import Scope
from blockstore.operations.view import View

_TAKE_NOTHING = frozenset(
    {Operation.APPEND, Operation.DISCOVER, Operation.COMPACT, Operation.REWRITE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """The table as it was when a transaction was begun."""

    state: State
    waiting: frozenset[str] = frozenset()
    """The writes that complete blocks held, and no entry named."""
    seen: frozenset[str] = frozenset()
    """Those blocks."""
    read: bool = False
    """Whether the caller read that version and decided by it, and did not only begin then."""

    def before(self, view: View, scope: Scope) -> View:
        """The view without what came later.

        Raises Conflict for a block that mixes both, where it could matter.
        """
        known = frozenset(self.state.blocks.ulids())
        now = view.state.blocks
        fresh = now.get_all(ulid for ulid in now.ulids() if ulid not in known)
        mixed = [block for block in fresh.values() if self._some(block) and not self._all(block)]
        for block in scope.may_match(view.state.definition, mixed):
            raise Conflict(
                f"block {block.ulid} holds rows that this {scope.what} changes, together with rows "
                f"that were written after version {self.state.version}, {self._said()}"
            )
        later = [ulid for ulid, block in fresh.items() if not self._some(block)]
        return replace(
            view,
            state=replace(view.state, blocks=now.changed(later, ())),
            unpublished=tuple(block for block in view.unpublished if self._waited(block)),
        )

    def _said(self) -> str:
        if self.read:
            return "which it has read: read the table again and decide again"
        return "when it was begun: run it again on the table as it is"

    def _some(self, block: LiveBlock) -> bool:
        return bool(self._earlier(block.meta.sources))

    def _all(self, block: LiveBlock) -> bool:
        return len(self._earlier(block.meta.sources)) == len(block.meta.sources)

    def _waited(self, block: ChosenBlock) -> bool:
        return not self.waiting.isdisjoint(block.sources)

    def _earlier(self, sources: Iterable[str]) -> set[str]:
        given = list(sources)
        return {*self.state.accounted.held(given), *self.waiting.intersection(given)}


@dataclass(slots=True, kw_only=True)
class Gone:
    """Follows the blocks of the version that was read through the entries after it, each once and
    in order."""

    since: Since
    scope: Scope
    _made: dict[str, BlockMeta] = field(default_factory=dict)
    """Blocks that hold rows of that version and came later: merges and rewrites."""

    def check(self, entry: Entry, definition: Definition) -> None:
        """Raise Conflict if the entry removed rows that were read and that the scope could hold, by
        its statistics."""
        if entry.operation not in _TAKE_NOTHING:
            touched = [self._read(ulid) for ulid in {*entry.remove, *entry.excepts}]
            blocks = [
                LiveBlock(meta=meta, version=entry.id, first_row_id=0)
                for meta in touched
                if meta is not None
            ]
            for block in self.scope.may_match(definition, blocks):
                raise Conflict(
                    f"version {entry.id} ({entry.operation}) took rows out of block {block.ulid}, "
                    f"which could hold rows that this {self.scope.what} changes, after version "
                    f"{self.since.state.version}, which it has read: read the table again and "
                    "decide again"
                )
        for added in entry.add:
            if any(self._read(parent.ulid) is not None for parent in added.meta.parents):
                self._made[added.ulid] = added.meta

    def _read(self, ulid: str) -> BlockMeta | None:
        """The block, if rows of the version that was read are in it."""
        live = self.since.state.blocks.get(ulid)
        return self._made.get(ulid) if live is None else live.meta
