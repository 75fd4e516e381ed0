"""``drop`` and ``undrop``: take a table away and bring it back - one index entry each, whatever the
size of the table, and no block is touched.

Rules (``index/dropped.py``):
- From the entry on the table cannot be opened, and whatever is under way there ends in
  TableDropped. What was planned before and is committed after an undrop finds the table as it was.
- ``create`` works at the same URL at once. After it, and once ``delete_delay`` has passed and the
  compactor has cleared the table, there is nothing to bring back.
- A table without an index cannot say that it is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.bucket import open_bucket
from blockstore.bucket.api import Bucket
from blockstore.errors import Conflict, Invalid, NotFound, VersionExpired
from blockstore.format.block import Job
from blockstore.format.features import DROP
from blockstore.format.texts import check_text
from blockstore.index.change import Change, Done, Draft
from blockstore.index.entry import Operation
from blockstore.index.history import History
from blockstore.index.lives import gone
from blockstore.index.log import Log
from blockstore.index.rules import batch_done
from blockstore.index.state import State
from blockstore.operations.place import what_to_do, whole_block
from blockstore.operations.writer import MAX_MESSAGE
from blockstore.world import World


@dataclass(kw_only=True)
class Drop(Change):
    """Say that the table is dropped."""

    operation: Operation = Operation.DROP
    commit: str
    message: str = ""
    job: Job | None = None
    empty: bool = False
    """Only a table that has no rows is dropped."""
    created: int | None = None
    """The version that created the table which is meant; None for the one that is there."""

    def draft(self, state: State) -> Draft:
        if self.created not in (None, state.created):
            raise Conflict(
                f"the table was replaced by another one in version {state.created}: nothing was "
                "changed"
            )
        if self.empty and len(state.blocks):
            raise Conflict(
                f"the table has rows at version {state.version}, and it was to be dropped as an "
                "empty one: nothing was changed"
            )
        return Draft(requires=(DROP,), message=self.message)


@dataclass(kw_only=True)
class Undrop(Change):
    """Say that the table is there again."""

    operation: Operation = Operation.UNDROP
    commit: str
    url: str
    message: str = ""
    job: Job | None = None

    def draft(self, state: State) -> Draft:
        dropped = state.dropped
        if dropped is None:
            again = (
                f" (created in version {state.created}, where another one had been dropped)"
                if state.created > 1
                else ""
            )
            raise Conflict(
                f"there is nothing to undrop: the table at {self.url}{again} is not dropped, at "
                f"version {state.version}"
            )
        if dropped.cleared is not None:
            raise gone(dropped, self.url)
        return Draft(
            requires=(DROP,), message=self.message, parameters={"dropped": dropped.version}
        )


def drop(url: str, *, message: str = "", empty: bool = False, world: World | None = None) -> int:
    """Drop the table at ``url`` and return the version that did it; with ``empty`` only one that
    has no rows.

    Its name is free at once. ``undrop`` brings it back until another table is created there, or
    the table's ``delete_delay`` has passed; then the compactor removes its blocks.

    Raises:
        NotFound: There is no table; TableDropped if it is dropped already.
        Conflict: It has rows, and was to be empty.
        Invalid: The table has no index.
    """
    world = world or World.real()
    return drop_table(log_of(open_bucket(url, world), world), world, message=message, empty=empty)


def undrop(url: str, *, message: str = "", world: World | None = None) -> int:
    """Bring the dropped table at ``url`` back, with all its versions and tags, and return the
    version that did it.

    Raises:
        NotFound: There is no table, or its blocks have left it since.
        Conflict: It is not dropped, or another one was created there.
        Invalid: The table has no index.
    """
    world = world or World.real()
    return undrop_table(log_of(open_bucket(url, world), world), world, message=message)


def drop_table(
    log: Log,
    world: World,
    *,
    message: str = "",
    job: Job | None = None,
    empty: bool = False,
    created: int | None = None,
) -> int:
    """Drop the table of this index; with a ``job`` it happens once. Returns the version. Raises
    Conflict, with ``empty`` for a table that has rows, and with ``created`` for one that another
    version created, also if that comes just then."""
    check_text("the message", message, limit=MAX_MESSAGE)
    commit = world.ids.ulid()
    done = log.commit(Drop(commit=commit, message=message, job=job, empty=empty, created=created))
    return done.version or log.state.version


def undrop_table(log: Log, world: World, *, message: str = "", job: Job | None = None) -> int:
    """Bring the table of this index back; with a ``job`` it happens once. Returns the version."""
    check_text("the message", message, limit=MAX_MESSAGE)
    url = log.bucket.url
    done = log.commit(Undrop(commit=world.ids.ulid(), url=url, message=message, job=job))
    return done.version or log.state.version


def done_of(log: Log, job: Job) -> Done | None:
    """What a job has done to the table of this index, or to those that were here before, as far
    back as the index is kept. Raises Invalid for a batch that comes out of order."""
    state = log.state
    while not state.committed(job) and state.created > 1:
        try:
            state = History(log.reader, log.state).at(state.created - 1)
        except VersionExpired:
            break
    found = state if state.committed(job) else log.state
    return batch_done(found, job, ordered=True)


def log_of(bucket: Bucket, world: World) -> Log:
    """The index of the table, dropped or not. Raises NotFound and Invalid."""
    log = Log(bucket, world)
    try:
        log.poll()
    except NotFound as error:
        if whole_block(bucket) is not None:
            raise Invalid(
                f"the table at {bucket.url} has no index, in which a drop could be undone: mark "
                "its blocks for deletion (blockstore mark), or remove its folder"
            ) from None
        raise NotFound(f"no table at {bucket.url}{what_to_do(bucket)}") from error
    return log
