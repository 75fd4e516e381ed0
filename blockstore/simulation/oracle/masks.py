"""What each operation may do to the rows of the table, computed without looking at a block,
where rows have no identity.

Promises:
- A write enters by append or discover.
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

from blockstore.index.entry import Entry, Operation
from blockstore.index.state import State
from blockstore.simulation.ground import Ground
from blockstore.simulation.ledger import ROWS, Intent, Ledger
from blockstore.simulation.oracle.directories import Directories
from blockstore.simulation.oracle.meaning import Meaning, Rows, Version
from blockstore.simulation.rows import WHOLE
from blockstore.simulation.violation import Violation

Delta = dict[int, int]
"""The new masks of the writes that an entry changes."""


class MaskMeaning(Meaning):
    """Judges the entries of a run on a table whose rows have no identity."""

    def __init__(self, ground: Ground, directories: Directories) -> None:
        super().__init__(ground, directories)
        self._judges: Mapping[str, Callable[[Entry, State, Rows, Mapping[int, Version]], Delta]] = {
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

    def follow(
        self, before: Version, entry: Entry, state: State, versions: Mapping[int, Version]
    ) -> Rows:
        found = self._delta(before, entry, state)
        self._check(before, entry, found, versions)
        return _changed(before.rows, found)

    def _check(
        self, before: Version, entry: Entry, found: Delta, versions: Mapping[int, Version]
    ) -> None:
        rows = before.rows
        judge = self._judges.get(entry.operation)
        expected = {} if judge is None else judge(entry, before.state, rows, versions)
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
        self, entry: Entry, before: State, rows: Rows, versions: Mapping[int, Version]
    ) -> Delta:
        if rows and before.dropped is None:
            raise Violation(f"entry {entry.id} ({entry.operation}) empties a table that is there")
        return dict.fromkeys(rows, 0)

    def _append(
        self, entry: Entry, before: State, rows: Rows, versions: Mapping[int, Version]
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

    def _replace(
        self, entry: Entry, before: State, rows: Rows, versions: Mapping[int, Version]
    ) -> Delta:
        intent = self._intent(entry)
        read = entry.read_version
        assert read is not None
        if intent.read is not None:
            self._check_read(entry, intent, intent.read, rows, versions)
        delta: Delta = {}
        for write, mask in rows.items():
            if self.applied[write] <= read:
                delta[write] = mask & ~self._matching(write, intent)
        for source in entry.account:
            self._account(source, entry, intent)
        if entry.operation == Operation.OVERWRITE:
            assert intent.write is not None
            self._enter(intent.write.number, entry)
            delta[intent.write.number] = WHOLE
        return delta

    def _check_read(
        self, entry: Entry, intent: Intent, read: int, rows: Rows, versions: Mapping[int, Version]
    ) -> None:
        if entry.read_version != read:
            raise Violation(
                f"entry {entry.id} says that it read version {entry.read_version}, its caller "
                f"{read}"
            )
        if entry.operation != Operation.OVERWRITE:
            return
        for write, mask in versions[read].rows.items():
            gone = mask & ~rows.get(write, 0) & self._matching(write, intent)
            if gone:
                raise Violation(
                    f"entry {entry.id} overwrites what was read at version {read}, and rows "
                    f"{gone:04b} of write {write} went since"
                )

    def _revert(
        self, entry: Entry, before: State, rows: Rows, versions: Mapping[int, Version]
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
        self, entry: Entry, before: State, rows: Rows, versions: Mapping[int, Version]
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
        self, entry: Entry, before: State, rows: Rows, versions: Mapping[int, Version]
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
                held: int = delta[write] if write in delta else rows.get(write, 0)
                delta[write] = held & ~mask
        return delta

    def _account(self, source: str, entry: Entry, intent: Intent) -> None:
        write = self._directories.write_of[source]
        if self._matching(write, intent) != WHOLE:
            raise Violation(
                f"entry {entry.id} accounts for write {write}, of which not every row matches"
            )
        if write in self.applied:
            raise Violation(
                f"entry {entry.id} accounts for write {write}, version {self.applied[write]} had it"
            )
        self.accounted[write] = entry.id

    def _matching(self, write: int, intent: Intent) -> int:
        return matching(self._ground.ledger, write, intent)

    def _delta(self, before: Version, entry: Entry, state: State) -> Delta:
        """What the entry does to the rows, by its blocks: those that it does not touch are as
        before."""
        lost: Delta = {}
        won: Delta = {}
        for ulid in sorted({*entry.remove, *entry.excepts, *(block.ulid for block in entry.add)}):
            old, new = before.state.blocks.get(ulid), state.blocks.get(ulid)
            content = self._directories.content(ulid)
            if old is not None:
                _gather(lost, content.rows(old.excepted), entry)
            if new is not None:
                _gather(won, content.rows(new.excepted), entry)
        delta: Delta = {}
        for write in sorted({*lost, *won}):
            held = before.rows.get(write, 0)
            left = held & ~lost.get(write, 0)
            if held & lost.get(write, 0) != lost.get(write, 0):
                raise Violation(
                    f"entry {entry.id} takes away rows of write {write} that version "
                    f"{entry.id - 1} did not show"
                )
            if left & won.get(write, 0):
                raise Violation(f"after entry {entry.id} rows of write {write} are in two blocks")
            after = left | won.get(write, 0)
            if after != held:
                delta[write] = after
        return delta


def matching(ledger: Ledger, write: int, intent: Intent) -> int:
    """The rows of a write for which an intent's condition is true."""
    if intent.only is not None:
        return WHOLE if write == intent.only else 0
    if intent.key is None:
        return WHOLE
    asked = ledger.writes[write]
    return sum(1 << row for row in range(ROWS) if asked.key(row) == intent.key)


def _gather(into: Delta, rows: Delta, entry: Entry) -> None:
    for write, mask in rows.items():
        if into.get(write, 0) & mask:
            raise Violation(f"rows of write {write} are in two blocks of entry {entry.id}")
        into[write] = into.get(write, 0) | mask


def _changed(rows: Rows, delta: Delta) -> Rows:
    changed = rows.mutate()
    for write, mask in delta.items():
        if mask:
            changed[write] = mask
        else:
            del changed[write]
    return changed.finish()
