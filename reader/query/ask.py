"""One query over the tables at some URLs, from the URLs to the rows.

Rules:
- A URL names a table or a lake. A table that is named by its own URL is opened at once, so that a
  URL without a table is reported whatever the SQL says.
- A table of a lake is opened when the SQL names it: to open the others would cost requests, and
  they may be damaged.
- Two tables of one name are refused, wherever they are: SQL could not distinguish them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from blockstore.bucket import Bucket, open_bucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.errors import Invalid, NotFound
from blockstore.index.log import Log
from blockstore.names import is_ulid
from blockstore.operations.place import folders, tables_among
from blockstore.reader.query.engine import Engine
from blockstore.reader.query.files import local_folder
from blockstore.reader.tables.at import NEWEST, At, at_of_each
from blockstore.reader.tables.names import Names, folded
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World


def query(
    urls: str | Sequence[str],
    sql: str,
    *,
    version: int | None = None,
    as_of: object = None,
    tag: str | None = None,
    parameters: object = None,
    row_ids: bool = False,
    world: World | None = None,
) -> pa.RecordBatchReader:
    """Run SQL over the tables at some URLs and return the rows.

    Args:
        urls: Tables, each named in SQL by the last part of its URL, or lakes.
        sql: One SELECT.
        version: The version to read; for one table.
        as_of: The moment to read all tables at: datetime, ISO 8601 or milliseconds.
        tag: The tag whose version to read; for one table.
        parameters: Values for ``?`` and ``$1``, or for ``$name``.
        row_ids: Whether the rows begin with their ids and versions (``_row_id``, ``_version``).
        world: Clock, ids and threads; the real ones by default.

    Raises:
        NotFound: A URL or a name has no table.
        Invalid: The SQL cannot be run.
        Corrupt: A block cannot be read; the message names it.
    """
    wanted = [urls] if isinstance(urls, str) else list(urls)
    if len(wanted) != 1 and (version is not None or tag is not None):
        given = f"version={version}" if version is not None else f"tag={tag!r}"
        raise Invalid(f"{given} is for one table, found {len(wanted)} URLs: use as_of")
    world = world or World.real()
    engine = Engine(
        _TablesAt(wanted, world, At(version=version, as_of=as_of, tag=tag)), world=world
    )
    try:
        sql = engine.with_row_ids(sql) if row_ids else sql
        reader = engine.query(sql, parameters)
    except BaseException:
        engine.close()
        raise
    batches = _closing(engine, reader)
    next(batches)
    return pa.RecordBatchReader.from_batches(reader.schema, batches)


def _closing(engine: Engine, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The rows. The caller takes the first step at once, so that the engine is always closed."""
    try:
        yield None
        yield from reader
    finally:
        engine.close()


class _TablesAt:
    """A source for one query: every snapshot is of ``at``."""

    def __init__(self, urls: Sequence[str], world: World, at: At) -> None:
        self._world = world
        self._at = at
        self._buckets: dict[str, Bucket] = {}
        self._taken: dict[str, TableSnapshot] = {}
        self._places = [open_bucket(url, world) for url in urls]
        for bucket in self._places:
            self._add(bucket)

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        return Names(self._buckets, allowed).all

    def find(self, name: str, allowed: Collection[str] | None = None) -> str:
        return Names(self._buckets, allowed).find(name)

    def snapshots(
        self,
        names: Iterable[str],
        at: At | Mapping[str, At] = NEWEST,
        allowed: Collection[str] | None = None,
    ) -> dict[str, TableSnapshot]:
        wanted = [self.find(name, allowed) for name in names]
        if isinstance(at, At) and not at.newest:
            return {name: self._earlier(name, at) for name in wanted}
        at_of_each(wanted, self._at)
        return {name: self._snapshot(name) for name in wanted}

    def folders(self) -> list[str]:
        found = {local_folder(bucket) for bucket in self._places}
        return sorted(folder for folder in found if folder is not None)

    @property
    def remote(self) -> bool:
        return any(local_folder(bucket) is None for bucket in self._places)

    def _add(self, bucket: Bucket) -> None:
        log = Log(bucket, self._world)
        try:
            log.poll()
        except NotFound:
            self._add_without_index(bucket)
        else:
            self._add_table(Table(bucket, self._world, log))

    def _add_without_index(self, bucket: Bucket) -> None:
        """A lake, or a table without an index. To find out about a table is to list it, so a place
        without the folder of a block is a lake first."""
        names = folders(bucket)
        if not any(map(is_ulid, names)) and self._add_lake(bucket, names):
            return
        try:
            self._add_table(Table.open_bucket(bucket, self._world, discovery=None))
        except NotFound:
            if not self._add_lake(bucket, names):
                raise

    def _add_table(self, table: Table) -> None:
        self._name(table.name, table.bucket)
        self._taken[table.name] = self._of(table)

    def _add_lake(self, bucket: Bucket, names: Iterable[str]) -> bool:
        """Add the tables among the folders; False if there are none."""
        below = {name: Prefixed(bucket, name) for name in names}
        tables = tables_among(below, self._world.pool)
        for name, one in tables.items():
            self._name(name, one)
        return bool(tables)

    def _name(self, name: str, bucket: Bucket) -> None:
        twin = next((one for one in self._buckets if folded(one) == folded(name)), None)
        if twin is not None:
            raise Invalid(
                f"two tables are named {name}: {self._buckets[twin].url} and {bucket.url}; the "
                "last parts of their URLs must differ"
            )
        self._buckets[name] = bucket

    def _snapshot(self, name: str) -> TableSnapshot:
        if name not in self._taken:
            self._taken[name] = self._of(
                Table.open_bucket(self._buckets[name], self._world, discovery=None)
            )
        return self._taken[name]

    def _earlier(self, name: str, at: At) -> TableSnapshot:
        """A table at the version that the SQL names."""
        table = Table.open_bucket(self._buckets[name], self._world, discovery=None)
        return table.snapshot(version=at.version, as_of=at.as_of)

    def _of(self, table: Table) -> TableSnapshot:
        return table.snapshot(version=self._at.version, as_of=self._at.as_of, tag=self._at.tag)
