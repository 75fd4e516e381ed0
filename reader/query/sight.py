"""What one query sees: the tables that its caller may name, and the snapshots of those that it
names.

Rules:
- A table that a policy restricts is seen by a query alone, and only as it is now: earlier versions
  may have had other columns, and rows that were since removed for a reason. What else is known of a
  table (``t.history``, ``t.blocks``, …) is not seen.
- A query reads a restricted table inside of its fence alone (``fences.py``), also where its caller
  took the snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from blockstore.reader.errors import Restricted, UnknownTable
from blockstore.reader.query.source import Source
from blockstore.reader.query.sql.statement import Statement, parse
from blockstore.reader.query.sql.syntax import Syntax
from blockstore.reader.query.task import Given
from blockstore.reader.tables.at import NEWEST, At
from blockstore.reader.tables.names import Names, folded
from blockstore.scan.chunk import HIDDEN
from blockstore.scan.view import TableSnapshot
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.reader.query.fences import Fence
    from blockstore.reader.tables.policies import Policies

_NOTHING: Mapping[str, TableSnapshot] = {}


class Sight:
    """What one query of a caller sees; for one query, and one thread."""

    def __init__(
        self,
        source: Source,
        allowed: Collection[str] | None,
        policies: Policies | None = None,
        *,
        at: At | Mapping[str, At] = NEWEST,
        taken: Mapping[str, TableSnapshot] = _NOTHING,
    ) -> None:
        """``allowed``, ``at`` and ``taken`` are as those of ``Engine.run``; ``policies`` say what
        is seen of the tables that are not allowed because they are restricted."""
        self._source = source
        self._allowed = allowed
        self._policies = policies
        self._at = at
        self._taken = taken
        self._restricted: set[str] = set()
        """The restricted tables that the query names, by their own names."""

    def parse(self, syntax: Syntax, sql: str, given: Collection[str] = ()) -> Statement:
        """Parse and admit the query; ``given`` are the names of rows that come with it. Raises
        BadSql, UnknownTable and Restricted."""
        names = Names(self._source.names(self._allowed))
        parts = {name for name in self._taken if "/" in name}

        def find(name: str) -> str:
            if name in parts:
                return name
            try:
                return names.find(name)
            except UnknownTable:
                return self._found(name)

        statement = parse(syntax, sql, find, given)
        self._check(statement)
        return statement

    def snapshots(self, statement: Statement) -> dict[str, TableSnapshot]:
        """A snapshot for each name of a table in the tree."""
        now, taken = statement.newest, self._taken
        reach = self._reach(statement)
        found = self._source.snapshots(sorted(now - taken.keys()), self._at, reach)
        found |= {name: taken[name] for name in now & taken.keys()}
        for own, (table, version) in statement.earlier.items():
            found[own] = self._source.snapshots([table], version, reach)[table]
        return found

    def related(
        self, statement: Statement, snapshots: Mapping[str, TableSnapshot], world: World
    ) -> tuple[Given, ...]:
        """The rows of the relations that the query names."""
        if not statement.relations:
            return ()
        from blockstore.reader.query.relations import rows_of

        known = {**snapshots, **self._taken}
        missing = {one.table for one in statement.relations.values()} - known.keys()
        at = self._at
        if not isinstance(at, At):  # those of the other tables are theirs
            at = {name: one for name, one in at.items() if folded(name) in map(folded, missing)}
        known |= self._source.snapshots(sorted(missing), at, self._reach(statement))
        return tuple(
            Given(own, rows_of(one, known[one.table], world))
            for own, one in statement.relations.items()
        )

    def fences(self, snapshots: Mapping[str, TableSnapshot]) -> dict[str, Fence]:
        """The fences of the restricted tables, by their names in the tree. Raises Restricted."""
        if self._policies is None or not self._restricted:
            return {}
        from blockstore.reader.query.fences import fence_of

        return {
            name: fence_of(
                name,
                snapshots[name].snapshot.columns.visible,
                self._policies.of(name),
                self._policies.user,
            )
            for name in sorted(self._restricted)
        }

    def _found(self, name: str) -> str:
        """A table that is newer than the last listing, or restricted."""
        try:
            return self._source.find(name, self._allowed)
        except Restricted as error:
            if self._policies is None or not self._policies.of(error.table):
                raise
            self._restricted.add(error.table)
            return error.table

    def _reach(self, statement: Statement) -> Collection[str] | None:
        """The tables whose snapshots are taken: those that were admitted."""
        return None if self._allowed is None else statement.all

    def _check(self, statement: Statement) -> None:
        """Raise Restricted where the query sees more of a restricted table than its rows of
        now."""
        for table in sorted(self._restricted):
            related = any(one.table == table for one in statement.relations.values())
            earlier = any(one == table for one, _ in statement.earlier.values())
            if related or earlier or not self._is_now(table):
                raise Restricted(table)

    def _is_now(self, table: str) -> bool:
        if isinstance(self._at, At):
            return self._at.newest
        return all(one.newest for name, one in self._at.items() if folded(name) == folded(table))


def visible(columns: pa.Schema, fence: Fence | None) -> pa.Schema:
    """The columns that names of a query can mean, of a table that has ``columns``. In a fence the
    names of hidden columns are taken, so that they mean nothing."""
    if fence is None:
        return columns
    own = set(fence.columns.names)
    return pa.schema([*fence.columns, *(one for one in HIDDEN if one.name not in own)])
