"""The index of a replica: the source's entries, byte for byte, each after the blocks it names.

Invariants:
- The boundary is written first, as 0: until there is a version, no reader takes the place for a
  table, or for one that lost its index.
- An entry is created, if absent, in order, after every block that it adds is complete. A reader of
  the replica sees a complete earlier version of the source, never a broken one. The checkpoint and
  the blocks of a tag are copied before the tag.
- A replica of a table whose first entries were collected begins at C, the oldest version that the
  source still keeps (its boundary + 1): the blocks of C, the checkpoint of C, then the boundary
  advances to C (protocol 3.4). So does a replica that is below the source's boundary.
- Only entries above the source's boundary are copied (the boundary is read after them), and only
  while the source is the same table. If either changes, the pass starts again. A void entry is
  copied like any other, because the chain covers it; the blocks that it names are not.
- A replica with an entry that the source does not have, or with another one, is forked: Conflict,
  with the version, and nothing in it is changed.
- A checkpoint is copied after all entries up to it.
- A source or a replica that was dropped and created again between two passes is another table. It
  is read from the start, never folded onto the known state, so that its versions count as forked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from blockstore.bucket.api import Bucket, is_there
from blockstore.care.replicate.blocks import BlockCopier, Gone
from blockstore.errors import (
    AlreadyExists,
    BoundaryLost,
    Conflict,
    Corrupt,
    Invalid,
    NoSpace,
    NotFound,
    ObjectMissing,
    SnapshotExpired,
    Unavailable,
    VersionExpired,
)
from blockstore.index.backoff import Pace
from blockstore.index.boundary import write_first
from blockstore.index.checkpoint import holds_state
from blockstore.index.checkpoint_name import name_of
from blockstore.index.checkpoint_write import put_checkpoint, raise_hint, renew_checkpoint
from blockstore.index.entry import Entry, decode_entry
from blockstore.index.history import History
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.names import checkpoint_key, entry_key
from blockstore.world import World

A = TypeVar("A")

_RESTARTS = 20
_PAGE = 64
_PATIENCE_S = 60.0
_ULID = 26


class _Moved(Exception):
    """The source's boundary passed what was being copied, or the source is another table now."""


class IndexCopier:
    """Copies the index of one table to one replica; caches what it read of both between passes."""

    def __init__(self, source: Log, target: Bucket, world: World) -> None:
        self._source = source
        self._reader = source.reader
        self._target = target
        self._replica = Log(target, world)
        self._world = world
        self.entries = 0
        """The number of entries written so far."""

    def run(self, blocks: BlockCopier) -> State:
        """Bring the replica to the source's latest version, and return that state of the source."""
        for _ in range(_RESTARTS):
            try:
                return self._run(blocks)
            except (_Moved, VersionExpired):
                continue
        raise Unavailable(
            f"the boundary of {self._source.bucket.url} moved past the version that was being "
            f"copied, {_RESTARTS} times: try again"
        )

    def _run(self, blocks: BlockCopier) -> State:
        try:
            boundary = self._source.boundary.read()
        except BoundaryLost:
            self._look()
            raise
        latest = self._look()
        at = self._replica_version(latest)
        if at is None or at < boundary:
            at = self._begin(boundary, blocks)
        # Also if no entry is new: a pass may have died after the last one, before the checkpoint.
        checkpoint = self._copy_checkpoint(max(self._replica.reader.checkpoints(0), default=0), at)
        while at < latest.version:
            page = range(at + 1, min(at + _PAGE, latest.version) + 1)
            self._copy_page(page, blocks)
            at = page[-1]
            checkpoint = self._copy_checkpoint(checkpoint, at)
        return latest

    def _look(self) -> State:
        """Return the source's latest state. Raises _Moved if it is another table now."""
        source = self._source.follow()
        if source is not self._source:
            self._source, self._reader = source, source.reader
            raise _Moved
        return source.state

    def _replica_version(self, latest: State) -> int | None:
        """Return the replica's version, or None if it has none yet.

        Raises Conflict if it is forked.
        """
        try:
            self._replica = self._replica.follow()
        except NotFound:
            self._replica = Log(self._target, self._world)
            return None
        mine = self._replica.state
        if mine.version > latest.version:
            raise self._forked(latest.version + 1)
        if not self._is_the_sources(mine, latest):
            raise self._forked(mine.version)
        if mine.version > self._replica.boundary.read() and not is_there(
            self._target, entry_key(mine.version)
        ):
            # The first pass died between the checkpoint and the boundary.
            self._replica.boundary.advance(mine.version)
        return mine.version

    def _is_the_sources(self, mine: State, latest: State) -> bool:
        """Return whether the replica's last version has the same commit as the source's."""
        commit = mine.commits.window().text[-_ULID:]
        if latest.commits.covers(mine.version):
            return latest.commits.find(commit) == mine.version
        try:
            return self._source.at(mine.version).commits.find(commit) == mine.version
        except VersionExpired:
            # The source has forgotten that commit; above the floor it forgets no write, and below
            # it none that is live. A table that shares none may be any table.
            held = [source for block in mine.blocks for source in block.meta.sources]
            known = {source for source in held if not latest.below_floor(source)}
            shared = {*latest.accounted.held(held)}
            return bool(shared) and known <= shared

    def _begin(self, boundary: int, blocks: BlockCopier) -> int:
        """Give the replica its first version, or the next that is still kept, and return it."""
        if boundary:
            fixed = self._replica.boundary.why_fixed()
            if fixed is not None:
                raise Invalid(
                    f"{self._target.url} cannot hold a replica of this table, whose first versions "
                    f"were collected: its boundary cannot advance ({fixed}); choose another store"
                )
        write_first(self._target, self._world, _PATIENCE_S)
        if boundary == 0:
            return 0
        latest = self._source.state  # its own newest entry may be collected
        # Also a version in which the table was dropped, or of a table before it.
        past = History(self._reader, latest)
        base = latest if latest.version <= boundary else past.at(boundary + 1)
        self._complete(blocks, (block.ulid for block in base.blocks), f"version {base.version}")
        for version in sorted(set(base.tags.values())):
            self._pin(version, blocks)
        if self._again(lambda: renew_checkpoint(self._target, base)) is None:
            found = self._replica.reader.checkpoint(
                self._target.get(checkpoint_key(base.version)).data, base.version
            )
            if not holds_state(found, base):
                raise self._forked(base.version)
        self._replica.boundary.advance(base.version)
        return base.version

    def _copy_page(self, page: range, blocks: BlockCopier) -> None:
        found = self._reader.get_all(page)
        if page[0] <= self._source.boundary.read() or not self._source.is_same(self._source.state):
            raise _Moved
        entries: list[tuple[bytes, Entry]] = []
        for number, data in zip(page, found, strict=True):
            if data is None:
                raise Corrupt(
                    f"index entry {number} of {self._source.bucket.url} is missing above the "
                    "boundary: restore it from a copy"
                )
            entries.append((data, decode_entry(data, entry_id=number, url=self._source.bucket.url)))
        void = frozenset(self._source.state.void)
        added = (block.ulid for _, entry in entries if entry.id not in void for block in entry.add)
        self._complete(blocks, added, f"one of the versions {page[0]} to {page[-1]}")
        for data, entry in entries:
            for version in entry.tags.values() if entry.id not in void else ():
                if version is not None:
                    self._pin(version, blocks)
            self._create(entry, data)

    def _complete(self, blocks: BlockCopier, ulids: Iterable[str], what: str) -> None:
        """Copy blocks that a version above the source's boundary names."""
        boundary = self._source.boundary.seen
        try:
            blocks.complete(ulids)
        except Gone as gone:
            if self._source.boundary.read() > boundary:
                raise _Moved from None
            raise Corrupt(
                f"block {gone} of {self._source.bucket.url} is missing, and {what} names it: "
                "restore it from a copy"
            ) from None

    def _pin(self, version: int, blocks: BlockCopier) -> None:
        """Copy a tag's checkpoint and its blocks, unless the source has dropped the tag since."""
        try:
            data = self._source.bucket.get(checkpoint_key(version)).data
            state = self._reader.checkpoint(data, version)
            blocks.complete(block.ulid for block in state.blocks)
            self._put_checkpoint(version, data, state)
        except (ObjectMissing, Gone, SnapshotExpired) as error:
            if version in self._look().tags.values():
                raise Corrupt(
                    f"version {version} of {self._source.bucket.url} has a tag and is incomplete "
                    f"({error} is missing): restore it from a copy, or remove the tag with untag"
                ) from None

    def _copy_checkpoint(self, newest: int, at: int) -> int:
        """Copy the source's newest checkpoint up to ``at``, if it is newer than the replica's.

        Returns the replica's newest.
        """
        listed = [version for version in self._reader.checkpoints(newest + 1) if version <= at]
        if not listed:
            return newest
        try:
            data = self._source.bucket.get(checkpoint_key(listed[-1])).data
            self._put_checkpoint(listed[-1], data, self._reader.checkpoint(data, listed[-1]))
        except (ObjectMissing, Corrupt):
            return newest  # collected since, or damaged: the next one is copied instead
        name = name_of(listed[-1], data)  # the bytes themselves: the entries name them
        self._again(lambda: raise_hint(self._target, name))
        return name.id

    def _put_checkpoint(self, version: int, data: bytes, state: State) -> None:
        """Put a checkpoint; of a root the leaves first, and they are looked for once more after it:
        a copy of the replica that lacks them may have been put back."""
        self._copy_leaves(state)
        self._again(lambda: put_checkpoint(self._target, version, data))
        self._copy_leaves(state)

    def _copy_leaves(self, state: State) -> None:
        if state.root is not None:
            from blockstore.index.tree.copying import copy_leaves

            self._again(lambda: copy_leaves(self._source.bucket, self._target, state))

    def _create(self, entry: Entry, data: bytes) -> None:
        """Write an entry under its id; the same bytes may be stored there already."""
        key = entry_key(entry.id)

        def put() -> bool:
            try:
                self._target.put_if_absent(key, data)
            except AlreadyExists:
                return False
            return True

        if self._again(put):
            self.entries += 1
        elif self._target.get(key).data != data:
            raise self._forked(entry.id)

    def _again(self, write: Callable[[], A]) -> A:
        """Repeat a write until its result is known or the time is over.

        The write must be one that may be sent any number of times.
        """
        clock = self._world.clock
        deadline = clock.monotonic_s() + _PATIENCE_S
        pace = Pace(self._world)
        tries = 0
        while True:
            try:
                return write()
            except Unavailable as error:
                if isinstance(error, NoSpace) or clock.monotonic_s() >= deadline:
                    raise
                tries += 1
                pace.after_silence(tries)

    def _forked(self, version: int) -> Conflict:
        return Conflict(
            f"{self._target.url} is not a replica of {self._source.bucket.url}: its version "
            f"{version} differs from the source's; another process has written there, or it is "
            "another table: replicate to an empty place, and let no other process write there"
        )
