"""One look at a table: its newest snapshot for two small requests, never a mix of two tables of one
name.

Rules:
- With an index, a poll that finds nothing new is GET index/N+1 (404) and one more small request: in
  turns the boundary (to drop a state that garbage collection has passed) and entry N (to notice
  within two polls that the table was deleted and created again); with it the boundary too where the
  last poll was long ago. On a store where that pays they are side by side.
- New entries count only if entry N is still the one that this state was folded from: entries of
  another table are never folded onto it. The index's reader checks N after the entries were read.
- The handle knows what its snapshot knows: its definition and its tags are as new.
- A table that was dropped is NotFound, and read from the start until it is there again.
- After any other error the table is read from the start once, like a new table.
- Without an index, or with ``discovery="list"``, a look is a listing.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.bucket import Bucket
from blockstore.errors import BlockstoreError, NotFound, Unavailable
from blockstore.index.history import History
from blockstore.index.lives import check_own, check_there
from blockstore.index.state import State
from blockstore.operations.contents import Discovery
from blockstore.reader.tables.at import At
from blockstore.scan.snapshot import Snapshot
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World

_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a look."""

    table: Table
    """The handle; a different one after the table was created again."""
    state: State | None
    """The index's state; None for a table without an index."""
    snapshot: TableSnapshot

    def same_as(self, other: Found) -> bool:
        """Whether both show the same rows of the same table."""
        mine, its = self.snapshot.snapshot, other.snapshot.snapshot
        if self.table is not other.table or mine.version != its.version:
            return False
        return [one.meta.ulid for one in mine.listed] == [one.meta.ulid for one in its.listed]


class Looker:
    """Reads one table; for one caller at a time, except ``at``."""

    def __init__(self, bucket: Bucket, world: World, discovery: str) -> None:
        self.bucket = bucket
        self._world = world
        self._discovery = discovery
        self._turn = 0
        self._doubted = False

    def doubt(self) -> None:
        """Read the table from the start at the next look: it may be another table."""
        self._doubted = True

    def look(self, last: Found | None) -> Found:
        """The newest snapshot. Raises NotFound if there is no table, and what reading it raises."""
        if last is None or self._doubted:
            return self._from_start()
        if last.state is None or self._discovery == Discovery.LIST:
            return self._listed(last)
        try:
            return self._advanced(last, last.state)
        except Unavailable:
            raise
        except BlockstoreError:
            # Perhaps another table is here now. If this one is damaged, reading it from the start
            # fails too, and so does every look until one succeeds; half of the polls would not see
            # the damage.
            self._doubted = True
            return self._from_start()

    def at(self, last: Found, at: At) -> TableSnapshot:
        """The snapshot of an earlier version of the table of ``last``. Raises NotFound."""
        if last.state is None:
            return last.table.snapshot(version=at.version, as_of=at.as_of, tag=at.tag)
        for _ in range(_TRIES):
            state = self._state_at(last, last.state, at)
            if self.is_same(last.table, last.state):
                return self._snapshot(Snapshot.of(state))
            last = self._cold()
            if last.state is None:
                break
        raise NotFound(f"the table at {self.bucket.url} is being replaced by another: try again")

    def is_same(self, table: Table, state: State) -> bool:
        """Whether the state is still of the present table: one request."""
        return table.log.is_same(state)

    def _from_start(self) -> Found:
        found = self._cold()
        self._doubted = False
        return found

    def _advanced(self, last: Found, state: State) -> Found:
        reader = last.table.log.reader
        self._turn += 1
        loaded = reader.advance(state, looks_at_own=self._turn % 2 == 0)
        newest = loaded.state
        if newest is state or newest.version == state.version:
            return last
        check_there(newest, self.bucket.url)
        last.table.log.take(loaded)
        return Found(table=last.table, state=newest, snapshot=self._snapshot(Snapshot.of(newest)))

    def _state_at(self, last: Found, state: State, at: At) -> State:
        return check_own(self._past(last, state, at), state, self.bucket.url)

    def _past(self, last: Found, state: State, at: At) -> State:
        history = History(last.table.log.reader, state)
        if at.tag is not None:
            if at.tag not in state.tags:
                names = ", ".join(map(repr, sorted(state.tags))) or "none"
                raise NotFound(
                    f"{self.bucket.url} has no tag {at.tag!r} at version {state.version}; its tags "
                    f"are: {names}"
                )
            return history.at(state.tags[at.tag])
        if at.version is not None:
            return history.at(at.version)
        moment = at.as_of_ms
        assert moment is not None, "an earlier version is a number, a tag or a moment"
        return history.as_of(moment)

    def _cold(self) -> Found:
        table = Table.open_bucket(self.bucket, self._world, discovery=self._mode())
        if not table.indexed or self._discovery == Discovery.LIST:
            state = table.log.state if table.indexed else None
            return Found(table=table, state=state, snapshot=table.snapshot())
        state = table.log.state
        return Found(table=table, state=state, snapshot=self._snapshot(Snapshot.of(state)))

    def _listed(self, last: Found) -> Found:
        """A look by listing. With an index, the table's identity is checked before and after."""
        if last.state is None:
            return Found(table=last.table, state=None, snapshot=last.table.snapshot())
        if not self.is_same(last.table, last.state):
            return self._cold()
        snapshot = last.table.snapshot()
        if not self.is_same(last.table, last.state):
            return self._cold()
        return Found(table=last.table, state=last.table.log.state, snapshot=snapshot)

    def _mode(self) -> str | None:
        """The discovery mode to open the table with; listings only if it has an index."""
        if self._discovery != Discovery.LIST:
            return None
        probe = Table.open_bucket(self.bucket, self._world, discovery=None)
        return Discovery.LIST if probe.indexed else None

    def _snapshot(self, snapshot: Snapshot) -> TableSnapshot:
        return TableSnapshot(bucket=self.bucket, world=self._world, snapshot=snapshot)
