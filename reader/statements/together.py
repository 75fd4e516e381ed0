"""Statements that change rows of one table one after the other, and become one version: the
changes of each are written before the next one reads, and no entry names them.

Rule: what one entry can say of several changes is not decided here: where rows have an identity by
``blockstore.rows.together``, elsewhere by the blocks that are left in the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from blockstore.format.block import BlockMeta
from blockstore.index.ahead import ahead
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.reader.statements.bound import Bound
from blockstore.reader.statements.changing import Changed, written
from blockstore.reader.statements.plain import Attempt, Written, commit
from blockstore.reader.statements.shape import Shape
from blockstore.rows.attempts import Said
from blockstore.rows.results import RowsChanged
from blockstore.rows.streams import StreamChanges
from blockstore.rows.together import RowsTogether
from blockstore.scan.snapshot import Snapshot
from blockstore.scan.view import TableSnapshot


class Together(Protocol):
    """Statements on one table."""

    @property
    def state(self) -> State:
        """What the next of them reads."""
        ...

    def write(self, bound: Bound, others: Mapping[str, TableSnapshot]) -> Changed:
        """Write the changes of the next one; ``others`` are the tables that it reads besides.
        Raises as a statement; then nothing of this one counts."""
        ...

    def read_all(self) -> None:
        """Note that a query between them has read the table."""
        ...

    def commit(self, rows: RowsChanged, said: Said) -> RowsChanged:
        """Commit all of them; return ``rows`` with the version. Raises Conflict where others
        changed the same rows or blocks since the first one read."""
        ...


def together(access: Access, state: State, said: Said) -> Together:
    """Statements that begin with reading ``state``."""
    if state.definition.identity is None:
        return _Blocks(access, state, said)
    return _Rows(access, state, said)


class _Rows:
    """Where rows have an identity."""

    def __init__(self, access: Access, state: State, said: Said) -> None:
        self._access = access
        self._together = RowsTogether(access, state, said)
        self._operations: set[Operation] = set()

    @property
    def state(self) -> State:
        return self._together.state

    def write(self, bound: Bound, others: Mapping[str, TableSnapshot]) -> Changed:
        returned: list[pa.Table | None] = [None]

        def write(state: State, changes: StreamChanges) -> RowsChanged:
            did, returned[0] = written(
                self._access,
                bound.name,
                bound.operation,
                bound.selected(Shape.of(Snapshot.of(state))),
                lambda selected, own: bound.query(selected.sql, {**others, **own}),
                state,
                changes,
                ignore=bound.ignores,
                reads=bound.reads,
            )
            return did

        rows = self._together.write(bound.operation, write)
        self._operations.add(bound.operation)
        return Changed(rows=rows, returned=returned[0])

    def read_all(self) -> None:
        if self._together.seen is not None:
            self._together.seen.everything()

    def commit(self, rows: RowsChanged, said: Said) -> RowsChanged:
        # A version that inserts, updates and deletes is what a merge is.
        one = next(iter(self._operations)) if len(self._operations) == 1 else Operation.MERGE
        return self._together.commit(one, replace(rows, operation=str(one)), said)


class _Blocks:
    """Where they have none, and complete blocks are replaced."""

    def __init__(self, access: Access, state: State, said: Said) -> None:
        self._access = access
        self._base = state
        self._said = said
        self._add: dict[str, BlockMeta] = {}
        self._gone: dict[str, frozenset[str]] = {}
        """Committed blocks that are replaced."""
        self.state = state

    def write(self, bound: Bound, others: Mapping[str, TableSnapshot]) -> Changed:
        attempt = Attempt(
            self._access,
            bound.operation,
            bound.plan(Shape.of(Snapshot.of(self.state))),
            bound.query,
            others,
            self._said,
            self.state,
            base=self._base,
        )
        found = attempt.write()
        if found.add or found.gone:
            own = self._access.world.ids.ulid()
            change = found.change(Operation.MERGE, own, Said(), self.state)
            self.state = ahead(self.state, change)
            for ulid, excepted in found.gone.items():
                if self._add.pop(ulid, None) is None:
                    self._gone[ulid] = excepted
            self._add |= {meta.ulid: meta for meta in found.add}
        return Changed(rows=found.rows, returned=found.returned)

    def read_all(self) -> None:
        """Nothing to note: the scope of its commit is all rows."""

    def commit(self, rows: RowsChanged, said: Said) -> RowsChanged:
        found = Written(
            rows=replace(rows, operation=str(Operation.MERGE)),
            returned=None,
            add=tuple(self._add.values()),
            gone=self._gone,
        )
        return commit(self._access, Operation.MERGE, said, self._base, found)
