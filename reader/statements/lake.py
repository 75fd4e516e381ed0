"""The tables at some URLs, for statements: newest snapshots to read, handles to write, and the
place where new tables are made.

Rules:
- A URL names a table or a lake, a folder that directly contains tables. Only a lake takes new ones.
- A handle stays open for the next statement, which sees at least what the last one wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from blockstore.bucket import Bucket, open_bucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.errors import (
    AlreadyExists,
    HistoryReplaced,
    Invalid,
    NotFound,
    TableDropped,
)
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.index.change import Done
from blockstore.index.lives import check_there
from blockstore.index.log import Log
from blockstore.names import RESERVED
from blockstore.operations.drop import done_of, drop_table, log_of, undrop_table
from blockstore.operations.place import check_place, folders, tables_among
from blockstore.reader.errors import UnknownTable
from blockstore.reader.query.files import local_folder
from blockstore.reader.tables.at import NEWEST, At, at_of_each
from blockstore.reader.tables.names import Names, folded
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World

_NOT_IN_NAMES = frozenset('/\\?#:*"')


class Lake:
    """A source of snapshots (``query/source.py``) whose tables can be written."""

    def __init__(self, urls: str | Sequence[str], world: World) -> None:
        self._world = world
        self._places = [
            open_bucket(url, world) for url in ([urls] if isinstance(urls, str) else urls)
        ]
        self._lakes: list[Bucket] = []
        self._buckets: dict[str, Bucket] = {}
        self._open: dict[str, Table] = {}
        for bucket in self._places:
            self._add(bucket)

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        return Names(self._buckets, allowed).all

    def find(self, name: str, allowed: Collection[str] | None = None) -> str:
        try:
            return Names(self._buckets, allowed).find(name)
        except UnknownTable:
            self._look()
            return Names(self._buckets, allowed).find(name)

    def snapshots(
        self,
        names: Iterable[str],
        at: At | Mapping[str, At] = NEWEST,
        allowed: Collection[str] | None = None,
    ) -> dict[str, TableSnapshot]:
        wanted = [self.find(name, allowed) for name in names]
        each = at_of_each(wanted, at)
        return {name: self._snapshot(name, each[name]) for name in wanted}

    def _snapshot(self, name: str, at: At) -> TableSnapshot:
        try:
            return self.open(name).snapshot(version=at.version, as_of=at.as_of, tag=at.tag)
        except HistoryReplaced:
            return self.open(name).snapshot(version=at.version, as_of=at.as_of, tag=at.tag)

    def folders(self) -> list[str]:
        found = {local_folder(bucket) for bucket in self._places}
        return sorted(folder for folder in found if folder is not None)

    @property
    def remote(self) -> bool:
        return any(local_folder(bucket) is None for bucket in self._places)

    def open(self, name: str) -> Table:
        """A handle on a table of the lake, another one where the table of an earlier handle was
        dropped. Raises UnknownTable."""
        own = self.find(name)
        if own not in self._open or _is_over(self._open[own]):
            self._open[own] = Table.open_bucket(self._buckets[own], self._world, discovery=None)
        return self._open[own]

    def done(self, name: str, job: Job) -> Done | None:
        """What a job has done to a table, be it dropped; None if it has done nothing, or there is
        no such table."""
        try:
            table = Table.open_bucket(self._bucket_of(name), self._world, dropped=True)
        except NotFound:
            return None
        return done_of(table.log, job) if table.indexed else None

    def create(self, name: str, definition: Definition, job: Job | None = None) -> Table:
        """Create an empty table. Raises AlreadyExists, and Invalid where no lake is named."""
        if not self._lakes:
            raise Invalid(
                "a new table needs a lake, and only tables are named: give the URL of the folder "
                "that contains them"
            )
        _check_name(name)
        self._look()
        twin = next((one for one in self._buckets if folded(one) == folded(name)), None)
        if twin is not None and self._is_there(twin):
            raise AlreadyExists(f"table {twin} exists: choose another name, or say IF NOT EXISTS")
        bucket = Prefixed(self._lakes[0], name)
        check_place(bucket, self._world, index=True)
        log = index_log.create(bucket, self._world, definition, job=job)
        made = Table(bucket, self._world, log)
        self._buckets[name] = bucket
        self._open[name] = made
        return made

    def _is_there(self, name: str) -> bool:
        try:
            table = self.open(name)
            if table.indexed:
                check_there(table.log.poll(), table.url)
        except TableDropped:
            self._forget(name)
            return False
        except HistoryReplaced:
            pass
        return True

    def drop(self, name: str, message: str, job: Job | None = None) -> int:
        """Drop a table; return the version that did it. Raises Invalid without an index."""
        own = self.find(name)
        log = log_of(self._buckets[own], self._world)
        version = drop_table(log, self._world, message=message, job=job)
        self._forget(own)
        return version

    def replace(
        self, name: str, definition: Definition, message: str, job: Job | None = None
    ) -> Table:
        """Drop a table, and create an empty one in its place. Raises Invalid without an index."""
        own = self.find(name)
        bucket = self._buckets[own]
        drop_table(log_of(bucket, self._world), self._world, message=message)
        log = index_log.create(bucket, self._world, definition, job=job)
        self._open[own] = Table(bucket, self._world, log)
        return self._open[own]

    def take_away(self, table: Table, message: str) -> None:
        """Drop a table that was created just now, if it is still empty, and the one that is
        there."""
        created = table.log.state.created
        drop_table(table.log, self._world, message=message, empty=True, created=created)
        for own in [own for own, one in self._open.items() if one is table]:
            self._forget(own)

    def _forget(self, own: str) -> None:
        self._buckets.pop(own, None)
        self._open.pop(own, None)

    def undrop(self, name: str, message: str, job: Job | None = None) -> int:
        """Bring a dropped table back; return the version that did it. Raises NotFound, and Conflict
        for one that is there."""
        log = log_of(self._bucket_of(name), self._world)
        return undrop_table(log, self._world, message=message, job=job)

    def _bucket_of(self, name: str) -> Bucket:
        """Where a table is, or was before it was dropped. Raises UnknownTable."""
        own = next((one for one in self._buckets if folded(one) == folded(name)), None)
        if own is not None:
            return self._buckets[own]
        if not self._lakes:
            raise UnknownTable(f"there is no table {name}: name the lake that contains it")
        _check_name(name)
        return Prefixed(self._lakes[0], name)

    def _add(self, bucket: Bucket) -> None:
        log = Log(bucket, self._world)
        try:
            log.poll()
        except NotFound:
            self._lakes.append(bucket)
            if not self._look():
                self._add_unindexed(bucket)
        else:
            self._keep(Table(bucket, self._world, log))

    def _add_unindexed(self, bucket: Bucket) -> None:
        """A table without an index; or else an empty lake."""
        try:
            table = Table.open_bucket(bucket, self._world, discovery=None)
        except NotFound:
            return
        self._lakes.remove(bucket)
        self._keep(table)

    def _keep(self, table: Table) -> None:
        self._name(table.name, table.bucket)
        self._open[table.name] = table

    def _look(self) -> bool:
        """Find the tables of the lakes; return whether there are some."""
        found = False
        for lake in self._lakes:
            below = {name: Prefixed(lake, name) for name in folders(lake)}
            for name, bucket in tables_among(below, self._world.pool).items():
                found = True
                if name not in self._buckets:
                    self._name(name, bucket)
        return found

    def _name(self, name: str, bucket: Bucket) -> None:
        twin = next((one for one in self._buckets if folded(one) == folded(name)), None)
        if twin is not None and self._is_there(twin):
            if _is_dropped(bucket, self._world):
                return
            raise Invalid(
                f"two tables are named {name}: {self._buckets[twin].url} and {bucket.url}; the "
                "last parts of their URLs must differ"
            )
        self._buckets[name] = bucket


def _is_over(table: Table) -> bool:
    """Whether a handle has met that its table was dropped, or replaced by another."""
    return table.indexed and (table.log.replaced or table.log.state.dropped is not None)


def _is_dropped(bucket: Bucket, world: World) -> bool:
    try:
        return log_of(bucket, world).state.dropped is not None
    except (Invalid, NotFound):
        return False


def _check_name(name: str) -> None:
    """Raise Invalid for a name that no folder of a lake can have, or that its URL would not say."""
    if name.lower() in RESERVED or name != name.strip() or not name.isprintable() or not name:
        raise Invalid(
            f"a table cannot be named {name[:60]!r}: a name has printable characters, no space at "
            f"either end, and is none of {', '.join(sorted(RESERVED))}"
        )
    odd = sorted(_NOT_IN_NAMES.intersection(name))
    if odd or name.startswith("."):
        raise Invalid(
            f"a table cannot be named {name[:60]!r}: a table is a folder of its lake, so its name "
            f"has none of {' '.join(sorted(_NOT_IN_NAMES))} and does not begin with a dot"
        )
