"""Faults planted where rows have an identity: each leaves out one rule of rows that change, as
the broken variants of ``specs/rows.pml`` do.

The simulation must find each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from blockstore.compactor.clean import retention
from blockstore.compactor.run import execute
from blockstore.format.block import BlockKind, BlockMeta
from blockstore.format.properties import FOREVER_S
from blockstore.index import fold
from blockstore.index.entry import Entry, Operation
from blockstore.index.state import State
from blockstore.index.touches import NOTHING
from blockstore.rows import cells, expire, restore, row_set
from blockstore.rows.change import ChangeRows
from blockstore.scan import hiding
from blockstore.scan.shadows import Rest, StreamShadows

Patch = pytest.MonkeyPatch


def a_tombstone_always_dropped(patch: Patch) -> None:
    """A merge drops tombstones although older versions live outside."""
    rest_of = StreamShadows.rest_of

    def without(self: StreamShadows, ulids: Collection[str]) -> Rest:
        found = rest_of(self, ulids)
        left_out = dict(found.left_out)
        for block in (self.changes[ulid] for ulid in ulids):
            gone = block.by_chunk(self._is_superseded(block) | block.deleted)
            left_out |= gone
        return Rest(found.kind, left_out, None)

    patch.setattr(StreamShadows, "rest_of", without)


def plain_over_an_older(patch: Patch) -> None:
    """A merge of changes without tombstones is plain although older versions live outside."""
    rest_of = StreamShadows.rest_of

    def plain(self: StreamShadows, ulids: Collection[str]) -> Rest:
        found = rest_of(self, ulids)
        if any(self.changes[ulid].deleted.any() for ulid in ulids):
            return found
        return replace(found, kind=BlockKind.PLAIN, judged=None)

    patch.setattr(StreamShadows, "rest_of", plain)


def the_first_writer_does_not_win(patch: Patch) -> None:
    """A change that has read commits whatever others did to its rows meanwhile."""
    patch.setattr(ChangeRows, "_check_untouched", lambda *_: None)


def blind_changes_are_not_looked_at(patch: Patch) -> None:
    """The look for touched rows passes over upserts."""
    touched_by = fold.touched_by

    def some(entry: Entry, *rest: Any) -> bytes | None:
        return NOTHING if entry.operation == Operation.UPSERT else touched_by(entry, *rest)

    patch.setattr(fold, "touched_by", some)


def an_expected_version_is_not_looked_at(patch: Patch) -> None:
    """A row set replaces rows that no longer have the version that its caller has read."""
    bad = row_set._bad

    def blind(expected: Any, found: Any, *, by_id: bool) -> Any:
        wanted = bad(expected, found, by_id=by_id)
        return row_set.pc.and_(wanted, expected.is_null())

    patch.setattr(row_set, "_bad", blind)


def a_restore_without_a_read_version(patch: Patch) -> None:
    """A restore by compensation names no version that it has read."""
    change_rows = restore.change_rows

    def blind(*given: Any, reads: bool) -> Any:
        return change_rows(*given, reads=False)

    patch.setattr(restore, "change_rows", blind)


def expiry_without_tombstones(patch: Patch) -> None:
    """Blocks of changes are removed although older versions of their rows stay."""
    patch.setattr(expire, "_tombstones", lambda *given: None)


def former_versions_leave_early(patch: Patch) -> None:
    """Former versions leave after a quarter of the time for which they are kept."""
    old_history = retention.old_history

    def early(state: State, now_ms: int) -> list[BlockMeta]:
        definition = state.definition
        kept_s = definition.properties.kept_history_s(definition.identity)
        ahead_ms = 0 if kept_s == FOREVER_S else round(750 * kept_s)
        return old_history(state, now_ms + ahead_ms)

    patch.setattr(retention, "old_history", early)


def former_versions_are_dropped(patch: Patch) -> None:
    """A merge drops the versions that are kept, and no entry adds a block of history."""
    patch.setattr(execute, "former_versions", lambda task, ids: None)


def cells_of_an_older_row(patch: Patch) -> None:
    """A change of cells believes the version that it read, whatever its caller expects."""
    given = cells._current

    def blind(access: Any, state: Any, identity: Any, columns: Any, rows: Any, stream: Any) -> Any:
        some = [{name: one for name, one in row.items() if name != "_version"} for row in rows]
        return given(access, state, identity, columns, some, stream)

    patch.setattr(cells, "_current", blind)


def readers_see_what_was_deleted(patch: Patch) -> None:
    """The current view leaves out superseded rows, and no tombstones."""
    patch.setattr(hiding, "_flags", lambda column: np.zeros(len(column), dtype=bool))


_ALL: Iterable[Callable[[Patch], None]] = (
    a_tombstone_always_dropped,
    plain_over_an_older,
    the_first_writer_does_not_win,
    blind_changes_are_not_looked_at,
    expiry_without_tombstones,
    former_versions_leave_early,
    former_versions_are_dropped,
    an_expected_version_is_not_looked_at,
    a_restore_without_a_read_version,
    cells_of_an_older_row,
    readers_see_what_was_deleted,
)
ROW_PLANTS: Mapping[str, Callable[[Patch], None]] = {plant.__name__: plant for plant in _ALL}
ROW_SEEDS: Mapping[str, int] = {
    "a_tombstone_always_dropped": 27,
    "plain_over_an_older": 48,
    "the_first_writer_does_not_win": 180,
    "blind_changes_are_not_looked_at": 195,
    "expiry_without_tombstones": 195,
    "former_versions_leave_early": 224,
    "former_versions_are_dropped": 11,
    "an_expected_version_is_not_looked_at": 103,
    "a_restore_without_a_read_version": 29,
    "cells_of_an_older_row": 103,
    "readers_see_what_was_deleted": 11,
}
"""Where the search begins, so that it is short: a fault is seen with this seed, or a later one."""
