"""What a user holds of a table: a thin door over its bucket, its index and the operations.

- A ``Table`` is one handle. It reads its own writes, is safe to share between threads, and holds no lock and no
  connection that another process could wait for.
- Nothing here decides anything: every method names the operation that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import pyarrow as pa

from blockstore.bucket import Bucket, open_bucket
from blockstore.errors import Conflict, Invalid, NotFound, ObjectMissing
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.format.properties import Properties
from blockstore.index import log as index_log
from blockstore.index.entry import Entry
from blockstore.index.log import Log
from blockstore.lifecycle.discover import discover_snapshot
from blockstore.names import is_ulid, meta_key
from blockstore.operations.alter import alter
from blockstore.operations.append import AppendedBlock
from blockstore.operations.diff import Diff, diff
from blockstore.operations.incoming import batches_of
from blockstore.operations.instants import to_ms
from blockstore.operations.writer import WriteOptions, Writer
from blockstore.scan.snapshot import Snapshot
from blockstore.scan.view import TableSnapshot
from blockstore.world import World

__all__ = ["Discovery", "Table", "create", "open"]


class Discovery(StrEnum):
    """How a handle finds the blocks of its snapshots."""

    INDEX = "index"
    """By the index alone: a poll costs two small requests."""
    LIST = "list"
    """By the index and a listing: also blocks that no entry names yet, once they are ``sync_delay`` old."""


def create(
    url: str,
    *,
    schema: pa.Schema,
    time_column: str | None = None,
    sort_by: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    properties: Mapping[str, object] | None = None,
    world: World | None = None,
) -> Table:
    """Create a table at ``url`` and open it.

    ``time_column`` is a timestamp or date by which blocks are pruned and merged; ``sort_by`` orders the rows of every
    chunk; ``properties`` are written as people write them (``{"sync_delay": "15m"}``). Raises Invalid for a definition
    that cannot work, and Conflict if the table exists.
    """
    definition = Definition.create(
        schema,
        time_column=time_column,
        sort_by=sort_by,
        labels=labels,
        properties=Properties.parse(properties or {}),
    )
    world = world or World.real()
    bucket = open_bucket(url, world)
    _check_empty(bucket)
    return Table(bucket, world, index_log.create(bucket, world, definition))


def _check_empty(bucket: Bucket) -> None:
    """Blocks without an index are a table that lost it, or one that never had one: a new index would forget them."""
    if index_log.exists(bucket):
        return
    folders = sorted(name for part in bucket.prefixes() if is_ulid(name := part.rstrip("/")))
    whole = next((ulid for ulid in folders if _has_meta(bucket, ulid)), None)
    if whole is not None:
        raise Conflict(
            f"{bucket.url} holds blocks ({whole} is one) and no index: a new table there would forget their rows; choose "
            "another URL, or bring the index back from a copy"
        )


def _has_meta(bucket: Bucket, ulid: str) -> bool:
    """Whether a folder is a block: without meta.json it is an upload that has not ended, as a first Spark job's."""
    try:
        bucket.head(meta_key(ulid))
    except ObjectMissing:
        return False
    return True


def open(url: str, *, discovery: str = Discovery.INDEX, world: World | None = None) -> Table:  # noqa: A001
    """Open the table at ``url``; ``discovery`` is ``"index"`` or ``"list"``. Raises NotFound if there is none."""
    world = world or World.real()
    return Table.open_bucket(open_bucket(url, world), world, discovery=discovery)


class Table:
    """A handle on one table. Make one with ``blockstore.open`` or ``blockstore.create``."""

    def __init__(self, bucket: Bucket, world: World, log: Log, *, discovery: str = Discovery.INDEX) -> None:
        if discovery not in tuple(Discovery):
            raise Invalid(f"discovery is {discovery!r}, expected 'index' or 'list'")
        self.bucket = bucket
        self.world = world
        self.log = log
        self.discovery = Discovery(discovery)

    @classmethod
    def open_bucket(cls, bucket: Bucket, world: World, *, discovery: str = Discovery.INDEX) -> Table:
        """Open the table that fills ``bucket``; raises NotFound if there is none."""
        log = Log(bucket, world)
        try:
            log.poll()
        except NotFound as error:
            raise NotFound(
                f"no table at {bucket.url}: found no index there; create one with blockstore.create(…) or "
                "'blockstore create URL --schema …', or check the URL"
            ) from error
        return cls(bucket, world, log, discovery=discovery)

    def __repr__(self) -> str:
        return f"Table({self.url!r})"

    @property
    def url(self) -> str:
        """Where the table lies."""
        return self.bucket.url

    @property
    def name(self) -> str:
        """The last part of the URL's path: the table's name in SQL."""
        return self.url.partition("?")[0].rstrip("/").rpartition("/")[2]

    @property
    def definition(self) -> Definition:
        """Schema, time column, sort key and properties, as of the newest version that this handle knows."""
        return self.log.state.definition

    def append(
        self,
        data: Any,
        *,
        job: Job | None = None,
        labels: Mapping[str, str] | None = None,
        resume: str | None = None,
        publish: bool = True,
        message: str = "",
    ) -> AppendedBlock:
        """Append rows as one block; they become visible all at once.

        ``data`` is anything that speaks Arrow: a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or polars
        DataFrame, anything with ``__arrow_c_stream__``, an iterable of record batches. Columns are matched by name.
        With a ``job`` the write happens once, however often it is repeated. ``resume`` is the ULID of an Indeterminate
        append, whose block this call finishes. ``publish=False`` leaves the block to be discovered by its age.
        Raises Invalid for rows that do not fit, and then nothing is visible.
        """
        options = WriteOptions(job=job, labels=labels, resume=resume, publish=publish, message=message)
        batches = batches_of(data)
        with Writer(self.bucket, self.world, self.log, self.definition, options) as writer:
            for batch in batches:
                writer.write(batch)
        return writer.finish()

    def writer(
        self, *, job: Job | None = None, labels: Mapping[str, str] | None = None, message: str = ""
    ) -> Writer:
        """A writer for many batches in bounded memory: ``with table.writer() as w: w.write(batch)``; one block."""
        options = WriteOptions(job=job, labels=labels, message=message)
        return Writer(self.bucket, self.world, self.log, self.definition, options)

    def snapshot(self, *, version: int | None = None, as_of: object = None) -> TableSnapshot:
        """The newest version, or that of a number, or the last one at a time (datetime, ISO 8601, milliseconds).

        With ``discovery="list"`` the newest one also holds the blocks that only a listing shows so far.
        Raises NotFound for a version that never was, and VersionExpired for one that was collected.
        """
        if version is not None and as_of is not None:
            raise Invalid("a snapshot takes version= or as_of=, found both: drop one")
        if version is not None:
            if isinstance(version, bool) or not isinstance(version, int) or version < 1:
                raise Invalid(f"version is {version!r}, expected a whole number from 1")
            state = self.log.at(version)
        elif as_of is not None:
            state = self.log.as_of(to_ms(as_of))
        elif self.discovery is Discovery.LIST:
            return self._listed()
        else:
            state = self.log.poll()
        return TableSnapshot(bucket=self.bucket, world=self.world, snapshot=Snapshot.of(state))

    def _listed(self) -> TableSnapshot:
        state, listed = discover_snapshot(self.bucket, self.world, self.log.poll)
        return TableSnapshot(
            bucket=self.bucket, world=self.world, snapshot=Snapshot.of(state or self.log.state, listed)
        )

    def poll(self) -> int:
        """Look for newer versions, for two small requests; answers the newest."""
        return self.log.poll().version

    def history(self) -> Iterator[Entry]:
        """Every version's entry, the oldest first, as far back as the index is kept."""
        return self.log.entries()

    def diff(self, before: int, after: int) -> Diff:
        """What ``after`` has and ``before`` has not, and the other way round."""
        return diff(self.log.at(before), self.log.at(after))

    def alter(
        self,
        *,
        add: Iterable[pa.Field] = (),
        widen: Mapping[str, pa.DataType] | None = None,
        properties: Mapping[str, object] | None = None,
        message: str = "",
    ) -> Definition:
        """Add columns at the end, widen types, change properties; no block is touched, old ones read as the new."""
        return alter(self.log, self.world, add=add, widen=widen, properties=properties, message=message)
