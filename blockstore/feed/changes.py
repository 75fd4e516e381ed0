"""The changes of a table between two of its versions, as a user holds them.

Rules:
- After 0 begins with the table that is there now, not with one that was dropped before it.
- Every version above the boundary can be read after; of those at or below it only tagged ones,
  and what is between such a one and the oldest version left is one net difference.
- A version's rows are in batches of their own. Within a version rows are in no order, but a row as
  it was comes before what it became.
- A dropped table has no changes, and is an error. Once it was brought back they go on, also after a
  version in which it was dropped.
- Whatever is missing is an error; if the versions were collected meanwhile, ``VersionExpired``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from blockstore.errors import Invalid, NotFound, ObjectMissing, VersionExpired
from blockstore.feed.difference import difference
from blockstore.feed.entries import Moment, Replaced, Wrote, effect
from blockstore.feed.form import Form
from blockstore.feed.runs import RUN_ROWS, RUN_VERSIONS, changes_of
from blockstore.index.history import History
from blockstore.index.idle import IdleLook
from blockstore.index.lives import check_there
from blockstore.index.state import State
from blockstore.lazy import once
from blockstore.operations.access import Access
from blockstore.scan.snapshot import Snapshot

_TRIES = 20


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Changes after one version, up to another; each look at them reads them again."""

    access: Access
    form: Form
    begin: State
    """The table as it was at ``after``."""
    net: State | None
    """Where ``after`` is below the boundary: the version up to which there is one net
    difference."""
    until: int
    """The last version whose changes they are: a reader of them all continues after it."""
    images: bool

    @property
    def after(self) -> int:
        """The version after which they begin."""
        return self.begin.version

    @property
    def schema(self) -> pa.Schema:
        """The columns of every batch."""
        return self.form.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes, by version; each batch is of one version.

        Raises VersionExpired if they were collected before all were read; ObjectMissing or Corrupt
        for damage.
        """
        position = self.begin
        try:
            if self.net is not None:
                yield from self._difference(_net(self.begin, self.net))
                position = self.net
            for some in self._steps(position):
                if isinstance(some, Replaced):
                    position = some.before
                    yield from self._difference(some)
                else:
                    position = some[0].before
                    yield from changes_of(self.access, self.form, some, images=self.images)
        except ObjectMissing as error:
            self._check_left(position, error)
            raise

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the changes as a stream of record batches, in bounded memory."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_table(self) -> pa.Table:
        """Return the changes as a pyarrow Table."""
        return self.to_reader().read_all()

    def _difference(self, replaced: Replaced) -> Iterator[pa.RecordBatch]:
        return difference(self.access, self.form, replaced, images=self.images)

    def _steps(self, begin: State) -> Iterator[list[Wrote] | Replaced]:
        run: list[Wrote] = []
        rows = 0
        for before, entry, after in self._history.walk(begin, self.until):
            did = effect(before, entry, after)
            if did is None:
                continue
            full = len(run) == RUN_VERSIONS or rows > RUN_ROWS
            if run and (full or isinstance(did, Replaced)):
                yield run
                run, rows = [], 0
            if isinstance(did, Replaced):
                yield did
            else:
                run.append(did)
                rows += did.rows
        if run:
            yield run

    @once
    def _history(self) -> History:
        return History(self.access.log.reader, self.access.log.state)

    def _check_left(self, state: State, error: ObjectMissing) -> None:
        """Raise VersionExpired if a version that was to be read has been collected."""
        log = self.access.log
        boundary = log.boundary.read()
        if state.version <= boundary and state.version not in log.poll().tags.values():
            raise self._history.expired(f"version {state.version}", boundary) from error


def changes(
    access: Access, *, after: int, until: int | None = None, before_images: bool = False
) -> Changes:
    """Return the changes after a version, up to another or the newest one.

    Raises:
        Invalid: The versions are no numbers, or ``until`` is below ``after``.
        NotFound: A version was never written.
        TableDropped: The table is dropped now.
        VersionExpired: The changes after that version are no longer known.
    """
    _check(after, "after")
    log = access.log
    newest = log.newest()
    check_there(newest, log.bucket.url)
    if until is None:
        until = max(newest.version, after)
    _check(until, "until")
    if until < after:
        raise Invalid(f"changes after version {after} until {until} were asked for: expected more")
    if until > newest.version:
        newest = log.poll()
        check_there(newest, log.bucket.url)
    if until > newest.version:
        raise NotFound(
            f"{log.bucket.url} has no version {until}, expected one up to {newest.version}, its "
            "latest"
        )
    begin, net = _begin(access, newest, after, until)
    labels = Snapshot.of(begin).label_names if begin.table is not None else frozenset()
    form = Form.of(newest, labels)
    return Changes(
        access=access, form=form, begin=begin, net=net, until=until, images=before_images
    )


def follow(
    access: Access, *, after: int, poll_s: float = 1.0, before_images: bool = False
) -> Iterator[Changes]:
    """Yield the changes after a version, again and again: those up to the newest version, then,
    once there are newer ones, these. Never ends. Raises HistoryReplaced about a minute after the
    table was made again, or put back from a copy."""
    idle = IdleLook(access.log, access.world.clock)
    while True:
        found = changes(access, after=after, before_images=before_images)
        if found.until > after:
            yield found
            after = found.until
        while access.log.poll().version == after:
            idle.look()
            access.world.clock.sleep(poll_s)


def _check(version: object, name: str) -> None:
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise Invalid(f"{name} is {version!r}, expected the number of a version, or 0")


def _begin(access: Access, newest: State, after: int, until: int) -> tuple[State, State | None]:
    """The state after which changes are given, and the end of a net difference."""
    log = access.log
    for attempt in range(_TRIES):
        boundary = log.boundary.read()
        try:
            if after == 0:
                if boundary >= newest.created:
                    what = f"what version {newest.created} changed"
                    raise History(log.reader, newest).expired(what, boundary)
                if newest.created == 1 or until == 0:
                    return State.EMPTY, None
                # Where a table was dropped before, this one begins with its creation, without rows.
                return log.at(min(newest.created, until)), None
            begin = log.at(after, dropped=True)
            if after > boundary or until == after:
                return begin, None
            return begin, log.at(min(boundary + 1, until), dropped=True)
        except VersionExpired:
            if attempt == _TRIES - 1 or log.boundary.read() == boundary:
                raise
    raise AssertionError("each attempt returns or raises")


def _net(before: State, after: State) -> Replaced:
    reason = f"net difference since version {before.version}"
    moment = Moment(version=after.version, time_ms=after.time_ms, reason=reason)
    return Replaced(moment=moment, before=before, after=after)
