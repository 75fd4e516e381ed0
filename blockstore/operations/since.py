"""What a transaction that was begun earlier is about, and what came after it was begun. Pure.

Rules:
- A write that the index accounted for, or that a complete block held, when the transaction was begun is its to replace.
- A write that came later stands after it, in whatever block it lies by now.
- A block that holds writes of both kinds, and rows that the transaction could be about, is a Conflict: part of its rows
  would go and part would stay, and the operation was begun without knowing the second part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from blockstore.errors import Conflict
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.lifecycle.cover import ChosenBlock
from blockstore.operations.scope import Scope
from blockstore.operations.view import View

__all__ = ["Since"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """The table as it was when a transaction was begun."""

    state: State
    waiting: frozenset[str] = frozenset()
    """The writes that complete blocks held, and no entry named."""
    seen: frozenset[str] = frozenset()
    """Those blocks."""

    def before(self, view: View, scope: Scope) -> View:
        """The view without what came later. Raises Conflict for a block that mixes both, where it could matter."""
        known = frozenset(self.state.blocks.ulids())
        now = view.state.blocks
        fresh = now.get_all(ulid for ulid in now.ulids() if ulid not in known)
        mixed = [block for block in fresh.values() if self._some(block) and not self._all(block)]
        for block in scope.may_match(view.state.definition, mixed):
            raise Conflict(
                f"block {block.ulid} holds rows that this {scope.what} is about, together with rows that were written "
                f"after version {self.state.version}, when it was begun: run it again on the table as it is"
            )
        later = [ulid for ulid, block in fresh.items() if not self._some(block)]
        return replace(
            view,
            state=replace(view.state, blocks=now.changed(later, ())),
            unpublished=tuple(block for block in view.unpublished if self._waited(block)),
        )

    def _some(self, block: LiveBlock) -> bool:
        return bool(self._earlier(block.meta.sources))

    def _all(self, block: LiveBlock) -> bool:
        return len(self._earlier(block.meta.sources)) == len(block.meta.sources)

    def _waited(self, block: ChosenBlock) -> bool:
        return not self.waiting.isdisjoint(block.sources)

    def _earlier(self, sources: Iterable[str]) -> set[str]:
        given = list(sources)
        return {*self.state.accounted.held(given), *self.waiting.intersection(given)}
