"""What each operation may do to the rows of the table, computed without looking at a block.

Promises:
- A write enters once, completely, by append or discover; a refused one never does. A job's write
  carries its job.
- compact, rewrite, alter, tags, epochs and watermarks change no row; nor do drop and undrop, which
  say whether the rows can be read. A dropped table that is cleared, or followed by another one, has
  none.
- delete and overwrite remove exactly the rows that match and that were in the version which they
  read; what was appended since stays. overwrite brings exactly its own rows. Where the caller names
  the version that it has read, that is the one, and an overwrite brings nothing back: no row that
  matches has gone since.
- revert removes exactly the rows of its sources; restore brings back exactly those of its version,
  and what was appended since it read the table stays.
- expire removes the blocks that a person marked, or whose time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import immutables

from blockstore.index.entry import Entry, Operation
from blockstore.index.state import State
from blockstore.simulation.ground import Ground
from blockstore.simulation.ledger import ROWS, Fate, Intent
from blockstore.simulation.oracle.directories import Directories
from blockstore.simulation.rows import WHOLE
from blockstore.simulation.violation import Violation

Rows = immutables.Map[int, int]
"""What a version shows: a bit mask of rows by write; no write with none."""

Delta = dict[int, int]
"""The new masks of the writes that an entry changes."""


class _HasRows(Protocol):
    @property
    def rows(self) -> Rows: ...


class Meaning:
    """Judges the entries of one run, each as it becomes history."""

    def __init__(self, ground: Ground, directories: Directories) -> None:
        self._ground = ground
        self._directories = directories
        self.applied: dict[int, int] = {}
        """The version by which a write entered."""
        self.accounted: dict[int, int] = {}
        """The version by which a write that never entered was replaced."""
        self._judges: Mapping[
            str, Callable[[Entry, State, Rows, Mapping[int, _HasRows]], Delta]
        ] = {
            Operation.APPEND: self._append,
            Operation.DISCOVER: self._append,
            Operation.DELETE: self._replace,
            Operation.OVERWRITE: self._replace,
            Operation.REVERT: self._revert,
            Operation.RESTORE: self._restore,
            Operation.EXPIRE: self._expire,
            Operation.CLEAR: self._empty,
            Operation.CREATE: self._empty,
        }

    def check(
        self,
        before: State,
        rows: Rows,
        entry: Entry,
        found: Delta,
        versions: Mapping[int, _HasRows],
    ) -> None:
        """Raise Violation unless the entry changes the rows as its operation says."""
        judge = self._judges.get(entry.operation)
        expected = {} if judge is None else judge(entry, before, rows, versions)
        expected = {write: mask for write, mask in expected.items() if rows.get(write, 0) != mask}
        if expected != found:
            wrong = sorted(
                write
                for write in {*expected, *found}
                if expected.get(write, rows.get(write, 0)) != found.get(write, rows.get(write, 0))
            )
            write = wrong[0]
            raise Violation(
                f"entry {entry.id} ({entry.operation} {entry.message}) changes {len(wrong)} writes "
                f"otherwise than it means: of write {write} it shows rows "
                f"{found.get(write, rows.get(write, 0)):04b}, expected "
                f"{expected.get(write, rows.get(write, 0)):04b}, before {rows.get(write, 0):04b}"
            )

    def _empty(
        self, entry: Entry, before: State, rows: Rows, versions: Mapping[int, _HasRows]
    ) -> Delta:
        if rows and before.dropped is None:
            raise Violation(f"entry {entry.id} ({entry.operation}) empties a table that is there")
        return dict.fromkeys(rows, 0)

    def _append(
        self, entry: Entry, before: State, rows: Rows, versions: Mapping[int, _HasRows]
    ) -> Delta:
        delta: Delta = {}
        for block in entry.add:
            writes = self._directories.content(block.ulid).rows()
            if list(writes.values()) != [WHOLE]:
                raise Violation(
                    f"entry {entry.id} appends block {block.ulid} with rows of {writes}, not one "
                    "write"
                )
            (write,) = writes
            self._enter(write, entry)
            delta[write] = WHOLE
        return delta

    def _enter(self, write: int, entry: Entry) -> None:
        asked = self._ground.ledger.writes[write]
        if write in self.applied:
            raise Violation(
                f"entry {entry.id} brings write {write} again, version {self.applied[write]} had it"
            )
        if write in self.accounted:
            raise Violation(
                f"entry {entry.id} brings write {write}, which version {self.accounted[write]} "
                "replaced"
            )
        if asked.fate is Fate.REFUSED:
            raise Violation(
                f"entry {entry.id} ({entry.operation}) brings write {write}, which was refused"
            )
        if entry.job != asked.job:
            raise Violation(
                f"entry {entry.id} brings write {write} with job {entry.job}, not {asked.job}"
            )
        self.applied[write] = entry.id

    def _replace(
        self, entry: Entry, before: State, rows: Rows, versions: Mapping[int, _HasRows]
    ) -> Delta:
        intent = self._intent(entry)
        read = entry.read_version
        assert read is not None
        if intent.read is not None:
            self._check_read(entry, intent, intent.read, rows, versions)
        delta: Delta = {}
        for write, mask in rows.items():
            if self.applied[write] <= read:
                delta[write] = mask & ~self.matching(write, intent)
        for source in entry.account:
            self._account(source, entry, intent)
        if entry.operation == Operation.OVERWRITE:
            assert intent.write is not None
            self._enter(intent.write.number, entry)
            delta[intent.write.number] = WHOLE
        return delta

    def _check_read(
        self, entry: Entry, intent: Intent, read: int, rows: Rows, versions: Mapping[int, _HasRows]
    ) -> None:
        if entry.read_version != read:
            raise Violation(
                f"entry {entry.id} says that it read version {entry.read_version}, its caller "
                f"{read}"
            )
        if entry.operation != Operation.OVERWRITE:
            return
        for write, mask in versions[read].rows.items():
            gone = mask & ~rows.get(write, 0) & self.matching(write, intent)
            if gone:
                raise Violation(
                    f"entry {entry.id} overwrites what was read at version {read}, and rows "
                    f"{gone:04b} of write {write} went since"
                )

    def _revert(
        self, entry: Entry, before: State, rows: Rows, versions: Mapping[int, _HasRows]
    ) -> Delta:
        intent = self._intent(entry)
        for source in entry.account:
            if source not in intent.sources:
                raise Violation(
                    f"entry {entry.id} accounts for {source}, which it was not to revert"
                )
            self.accounted[self._directories.write_of[source]] = entry.id
        return {
            write: 0
            for source in intent.sources
            if (write := self._directories.write_of.get(source)) is not None and write in rows
        }

    def _restore(
        self, entry: Entry, before: State, rows: Rows, versions: Mapping[int, _HasRows]
    ) -> Delta:
        intent = self._intent(entry)
        assert intent.version is not None
        assert entry.read_version is not None
        wanted = versions[intent.version].rows
        delta: Delta = {}
        for write in {*wanted, *rows}:
            stays = write in rows and self.applied[write] > entry.read_version
            delta[write] = rows[write] if stays else wanted.get(write, 0)
        return delta

    def _expire(
        self, entry: Entry, before: State, rows: Rows, versions: Mapping[int, _HasRows]
    ) -> Delta:
        delta: Delta = {}
        for ulid in entry.remove:
            block = before.blocks.get(ulid)
            assert block is not None, "the fold refuses to remove what is not live"
            if ulid not in self._ground.ledger.condemned and not self._ground.expired(
                block.meta.max_time
            ):
                raise Violation(
                    f"entry {entry.id} expires block {ulid}, which is not old, and which no person "
                    "marked"
                )
            for write, mask in self._directories.content(ulid).rows(block.excepted).items():
                delta[write] = delta.get(write, rows.get(write, 0)) & ~mask
        return delta

    def _account(self, source: str, entry: Entry, intent: Intent) -> None:
        write = self._directories.write_of[source]
        if self.matching(write, intent) != WHOLE:
            raise Violation(
                f"entry {entry.id} accounts for write {write}, of which not every row matches"
            )
        if write in self.applied:
            raise Violation(
                f"entry {entry.id} accounts for write {write}, version {self.applied[write]} had it"
            )
        self.accounted[write] = entry.id

    def matching(self, write: int, intent: Intent) -> int:
        """The rows of a write for which the intent's condition is true."""
        if intent.only is not None:
            return WHOLE if write == intent.only else 0
        if intent.key is None:
            return WHOLE
        asked = self._ground.ledger.writes[write]
        return sum(1 << row for row in range(ROWS) if asked.key(row) == intent.key)

    def _intent(self, entry: Entry) -> Intent:
        intent = self._ground.ledger.intents.get(entry.message)
        if intent is None or intent.operation != entry.operation:
            raise Violation(
                f"entry {entry.id} ({entry.operation} {entry.message!r}) was requested by no "
                "process"
            )
        if intent.fate is Fate.REFUSED:
            raise Violation(
                f"entry {entry.id} ({entry.operation} {entry.message!r}) was refused before"
            )
        if intent.versions:
            raise Violation(
                f"entry {entry.id} is {entry.message!r} again, version {intent.versions[0]} was it"
            )
        intent.versions.append(entry.id)
        return intent
