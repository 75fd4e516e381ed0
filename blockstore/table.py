"""What a user holds of a table: a thin door over its bucket, its index and the operations.

- A ``Table`` is one handle. With an index it reads its own writes; it is safe to share between
  threads, and holds no lock and no connection that another process could wait for.
- A table without an index has no versions: its blocks are found by listing and become visible by
  their age. What needs an index is Invalid there and says so.
- Nothing here decides anything: every method names the operation that does. A process that only
  reads loads no operation that writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from blockstore.bucket import Bucket, open_bucket
from blockstore.bucket.url import last_part
from blockstore.errors import Invalid, NotFound
from blockstore.feed.handle import Following
from blockstore.format.definition import Definition
from blockstore.format.evolution import Alteration
from blockstore.format.properties import Properties
from blockstore.index import log as index_log
from blockstore.index import tags
from blockstore.index.lives import check_there
from blockstore.index.log import Log
from blockstore.lazy import once
from blockstore.lifecycle.complete import CheckComplete
from blockstore.operations.access import Access
from blockstore.operations.contents import Contents, Discovery, Indexed, earlier, no_index
from blockstore.operations.place import check_place, what_to_do
from blockstore.operations.unindexed import Unindexed, check_without_index
from blockstore.predicate import Condition
from blockstore.rows.back import GoingBack
from blockstore.rows.file_cells import FilesOfCells
from blockstore.rows.handle import ChangingRows
from blockstore.scan.reads import Reads
from blockstore.scan.view import TableSnapshot
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.format.block import Job
    from blockstore.index.entry import Entry
    from blockstore.lifecycle.catalog import Catalog
    from blockstore.operations.append import AppendedBlock
    from blockstore.operations.diff import Diff
    from blockstore.operations.results import Changed
    from blockstore.operations.writer import Writer


def create(
    url: str,
    *,
    schema: pa.Schema,
    time_column: str | None = None,
    sort_by: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    row_ids: bool = False,
    key: str | Iterable[str] = (),
    properties: Mapping[str, object] | None = None,
    index: bool = True,
    world: World | None = None,
) -> Table:
    """Create a table at ``url`` and open it.

    ``time_column`` is a timestamp or date by which blocks are pruned and merged; ``sort_by`` orders
    the rows of every chunk; ``properties`` are written as people write them (``{"sync_delay":
    "15m"}``). With ``row_ids``, or a ``key`` of some columns, rows can be changed and have
    versions. With ``index=False`` nothing is written before the first block, which carries the
    definition, and blocks are visible once they are ``sync_delay`` old. Raises Invalid for a
    definition that cannot work or a store that keeps no index, and Conflict if the table exists. A
    table that was dropped there can no longer be brought back.
    """
    given = Properties.parse(properties or {})
    definition = Definition.create(
        schema,
        time_column=time_column,
        sort_by=sort_by,
        labels=labels,
        row_ids=row_ids,
        key=key,
        properties=given,
    )
    if not index:
        check_without_index(definition)
    world = world or World.real()
    bucket = open_bucket(url, world)
    check_place(bucket, world, index=index)
    if not index:
        return Table(bucket, world, Unindexed(definition, given=True))
    return Table(bucket, world, index_log.create(bucket, world, definition))


def open(  # noqa: A001
    url: str,
    *,
    discovery: str = Discovery.INDEX,
    properties: Mapping[str, object] | None = None,
    strict: bool = False,
    cache: str | Path | None = None,
    world: World | None = None,
) -> Table:
    """Open the table at ``url``; ``discovery`` is ``"index"`` or ``"list"``. Raises NotFound if
    there is none, TableDropped if it was dropped.

    With ``"list"`` a table needs no index: it is then what its blocks say, and ``properties`` are
    its delays (``{"sync_delay": "15m"}``). ``strict`` fails a snapshot that must leave malformed
    blocks out, instead of naming them there; ``cache`` is a file in which what was read of the
    blocks outlives the process.
    """
    world = world or World.real()
    return Table.open_bucket(
        open_bucket(url, world),
        world,
        discovery=discovery,
        properties=properties,
        strict=strict,
        cache=cache,
    )


def open_any(url: str, *, dropped: bool = False, world: World | None = None) -> Table:
    """Open the table at ``url`` as it is: by its index, or by a listing if it never had one; with
    ``dropped`` also one that was dropped. Raises NotFound; Corrupt where there is no index and
    blocks that only an index shows: it was lost, and a listing would show less."""
    world = world or World.real()
    return Table.open_bucket(open_bucket(url, world), world, discovery=None, dropped=dropped)


class Table(ChangingRows, GoingBack, FilesOfCells, Following):
    """A handle on one table. Make one with ``blockstore.open`` or ``blockstore.create``."""

    def __init__(
        self,
        bucket: Bucket,
        world: World,
        contents: Log | Contents,
        *,
        discovery: str = Discovery.INDEX,
        strict: bool = False,
        cache: str | Path | None = None,
    ) -> None:
        if isinstance(contents, Log):
            contents = Indexed(world, contents, discovery)
        self.bucket = bucket
        self.world = world
        self.strict = strict
        self._contents = contents
        self._cache = None if cache is None else Path(cache)
        self._reads = Reads(world)

    @classmethod
    def open_bucket(
        cls,
        bucket: Bucket,
        world: World,
        *,
        discovery: str | None = Discovery.INDEX,
        properties: Mapping[str, object] | None = None,
        strict: bool = False,
        cache: str | Path | None = None,
        dropped: bool = False,
    ) -> Table:
        """Open the table that fills ``bucket``; raises NotFound if there is none. With
        ``discovery`` None as ``open_any`` does, with ``dropped`` also one that was dropped: for
        its care, since its rows cannot be read."""
        log = Log(bucket, world)
        mode = Discovery.INDEX if discovery is None else discovery
        table = cls(bucket, world, log, discovery=mode, strict=strict, cache=cache)
        try:
            log.poll()
        except NotFound as error:
            if discovery in (None, Discovery.LIST) and not log.boundary.was_read:
                delays = Properties.parse(properties or {})
                table._contents = Unindexed.open(
                    table.catalog, delays, trusting=discovery is not None
                )
                return table
            raise NotFound(
                f"no table at {bucket.url}: found no index there{what_to_do(bucket)}"
            ) from error
        if not dropped:
            check_there(log.state, bucket.url)
        if properties is not None:
            raise Invalid(
                f"{bucket.url} has an index, which holds its properties: open it without "
                "properties, and change them with alter"
            )
        return table

    def __repr__(self) -> str:
        return f"Table({self.url!r})"

    @property
    def url(self) -> str:
        """The place of the table."""
        return self.bucket.url

    @property
    def name(self) -> str:
        """The last part of the URL's path: the table's name in SQL."""
        return last_part(self.url)

    @property
    def discovery(self) -> Discovery:
        """How this handle finds the blocks of its snapshots."""
        return self._contents.discovery

    @property
    def indexed(self) -> bool:
        """Whether the table has an index: versions, transactions, jobs that happen once."""
        return self._contents.log is not None

    @property
    def log_or_none(self) -> Log | None:
        """The table's index, or None for a table without one."""
        return self._contents.log

    @property
    def log(self) -> Log:
        """The table's index. Raises Invalid for a table without one."""
        log = self._contents.log
        if log is None:
            raise no_index(self.url)
        return log

    @once
    def catalog(self) -> Catalog:
        """What this handle has read of the table's blocks by listing."""
        from blockstore.lifecycle.catalog import Catalog

        return Catalog(self.bucket, self.world, self._cache)

    @property
    def _access(self) -> Access:
        return Access(
            bucket=self.bucket,
            world=self.world,
            log=self.log,
            catalog=self.catalog,
            reads=self._reads,
        )

    @property
    def definition(self) -> Definition:
        """Schema, time column, sort key and properties, as of the newest version that this handle
        knows."""
        return self._contents.definition

    def append(
        self,
        data: Any,
        *,
        job: Job | None = None,
        labels: Mapping[str, str] | None = None,
        resume: str | None = None,
        publish: bool = True,
        evolve: bool = False,
        message: str = "",
    ) -> AppendedBlock:
        """Append rows as one block; they become visible all at once.

        ``data`` is anything that speaks Arrow: a pyarrow Table, RecordBatch or RecordBatchReader, a
        pandas or polars DataFrame, anything with ``__arrow_c_stream__``, an iterable of record
        batches. Columns are matched by name. With a ``job`` the write happens once, however often
        it is repeated. ``resume`` is the ULID of an Indeterminate append, whose block this call
        finishes. ``publish=False`` leaves the block to be discovered by its age. With ``evolve``
        columns that the table lacks are added and types widened in the same version. Raises Invalid
        for rows that do not fit, and then nothing is visible.
        """
        from blockstore.operations.incoming import batches_of
        from blockstore.operations.writer import WriteOptions, Writer

        options = WriteOptions(
            job=job, labels=labels, resume=resume, publish=publish, evolve=evolve, message=message
        )
        batches = batches_of(data)
        with Writer(self.bucket, self.world, self.log_or_none, self.definition, options) as writer:
            for batch in batches:
                writer.write(batch)
        return writer.finish()

    def writer(
        self,
        *,
        job: Job | None = None,
        labels: Mapping[str, str] | None = None,
        evolve: bool = False,
        message: str = "",
    ) -> Writer:
        """A writer for many batches in bounded memory, one block: ``with table.writer() as w:
        w.write(batch)``. With ``evolve`` the first batch says which columns there are."""
        from blockstore.operations.writer import WriteOptions, Writer

        options = WriteOptions(job=job, labels=labels, evolve=evolve, message=message)
        return Writer(self.bucket, self.world, self.log_or_none, self.definition, options)

    def snapshot(
        self,
        *,
        version: int | None = None,
        as_of: object = None,
        tag: str | None = None,
        strict: bool | None = None,
    ) -> TableSnapshot:
        """The newest version, or that of a number, of a tag, or the last one at a time (datetime,
        ISO 8601, milliseconds).

        With ``discovery="list"`` the newest one also holds the blocks that only a listing shows so
        far. Malformed ones are named in its ``left_out``, or raise Corrupt if ``strict`` (default:
        as the handle was opened). Raises NotFound for a version that never was, and VersionExpired
        for one that was collected.
        """
        if version is None and as_of is None and tag is None:
            found = self._contents.newest(lambda: self.catalog)
        else:
            found = earlier(self.log, version=version, as_of=as_of, tag=tag)
        taken = TableSnapshot(
            bucket=self.bucket, world=self.world, snapshot=found, reads=self._reads
        )
        if self.strict if strict is None else strict:
            taken.check_whole()
        return taken

    def overwrite(
        self,
        data: Any,
        *,
        where: Condition = None,
        job: Job | None = None,
        labels: Mapping[str, str] | None = None,
        isolation: str | None = None,
        read_version: int | None = None,
        dry_run: bool = False,
        message: str = "",
    ) -> Changed:
        """Replace all rows, or those for which ``where`` is true, by ``data``, in one version.

        Every new row must meet ``where``. With a ``job`` it happens once. What others append
        meanwhile stays, unless ``isolation="serializable"`` (default: the table's property): then
        it conflicts. ``read_version`` is the version from which ``data`` was computed: "meanwhile"
        begins there, and rows that others took away since conflict too. ``dry_run`` returns what
        would happen. Raises Conflict where others replaced rows that it is about.
        Where rows have an identity, rows that go get tombstones, and a new row replaces that of
        its key.
        """
        if self.definition.identity is not None:
            return self._overwrite_rows(
                data,
                where,
                (isolation, read_version),
                job=job,
                labels=labels,
                dry_run=dry_run,
                message=message,
            )
        from blockstore.operations.overwrite import overwrite

        return overwrite(
            self._access,
            data,
            where=where,
            job=job,
            labels=labels,
            isolation=isolation,
            read_version=read_version,
            dry_run=dry_run,
            message=message,
        )

    def delete(
        self,
        where: Condition,
        *,
        isolation: str | None = None,
        read_version: int | None = None,
        dry_run: bool = False,
        message: str = "",
    ) -> Changed:
        """Delete the rows for which ``where`` is true, not unknown (null), in one version; else as
        ``overwrite``. Where rows have an identity, former versions stay (``row_history``)."""
        if self.definition.identity is not None:
            options = (isolation, read_version)
            return self._delete_where(where, options, dry_run=dry_run, message=message)
        from blockstore.operations.delete import delete

        return delete(
            self._access,
            where,
            isolation=isolation,
            read_version=read_version,
            dry_run=dry_run,
            message=message,
        )

    def tag(
        self, name: str, *, version: int | None = None, message: str = "", job: Job | None = None
    ) -> int:
        """Keep a version (default: the newest) readable under a name until it is untagged; returns
        the version. With a ``job`` it happens once."""
        tags.check_free(name)
        look = CheckComplete(self.bucket, self.world)
        return tags.tag(self.log, self.world, name, version, message, look=look, job=job)

    def untag(self, name: str, *, message: str = "", job: Job | None = None) -> None:
        """Take a tag away; its version expires with its age. With a ``job`` it happens once."""
        tags.untag(self.log, self.world, name, message, job=job)

    def poll(self) -> int:
        """Look for newer versions, for two small requests; returns the newest."""
        return self.log.poll().version

    def history(self) -> Iterator[Entry]:
        """Every version's entry, the oldest first, as far back as the index is kept."""
        return self.log.entries()

    def diff(self, before: int, after: int) -> Diff:
        """What ``after`` has and ``before`` does not have, and the reverse."""
        from blockstore.operations.diff import diff

        return diff(self.log.at(before), self.log.at(after))

    def alter(
        self,
        *,
        add: Iterable[pa.Field] = (),
        widen: Mapping[str, pa.DataType] | None = None,
        rename: Mapping[str, str] | None = None,
        drop: Iterable[str] = (),
        reorder: Iterable[str] = (),
        columns: Mapping[str, Mapping[str, object]] | None = None,
        properties: Mapping[str, object] | None = None,
        message: str = "",
    ) -> Definition:
        """Change columns, their rules and properties in one version; no block is touched.

        ``reorder`` names the first columns; ``columns`` changes rules (``{"age": {"check": "age <
        150"}}``), None takes one away. A new rule reads existing rows; one that breaks it raises
        Invalid. Without an index the handle's next block carries what is added, widened and set.
        """
        alteration = Alteration.of(add, widen, rename, drop, reorder, columns, properties)
        return self._contents.alter(lambda: self.catalog, alteration, message=message)
