"""Snapshots and scans for users: a snapshot with its bucket, and the scans over it.

A ``TableSnapshot`` never changes: it returns the same rows at every call, whatever happens to the
table. Rows are read when a scan is converted (``to_reader``, ``to_table``, …), in the order of
blocks and chunks.

Rules for a snapshot that is read after its version was collected:
- A missing object is damage as long as the version can still be opened, above the boundary or by a
  tag. Otherwise its blocks may be removed, and reading them raises ``VersionExpired``.
- The index is read only once an object is missing. If that fails, the object's error is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from blockstore.bucket import ReadBucket
from blockstore.errors import (
    BlockstoreError,
    Corrupt,
    MissingExtra,
    ObjectMissing,
    SnapshotExpired,
    VersionExpired,
)
from blockstore.format.definition import Definition
from blockstore.index.blocks import Blocks
from blockstore.index.log import Log
from blockstore.index.rows import LiveBlock
from blockstore.lazy import once
from blockstore.scan.plan import ScanPlan, plan_pass, plan_scan
from blockstore.scan.reads import Reads
from blockstore.scan.snapshot import Snapshot
from blockstore.world import World


@dataclass(frozen=True, kw_only=True)
class TableSnapshot:
    """A table at one version."""

    bucket: ReadBucket
    world: World
    snapshot: Snapshot
    reads: Reads | None = None
    """What the handle keeps between queries; None to keep nothing."""

    @property
    def version(self) -> int | None:
        """The index version; None for a table without an index."""
        return self.snapshot.version

    @property
    def time_ms(self) -> int:
        """When that version was committed, in milliseconds since the epoch."""
        return self.snapshot.time_ms

    @property
    def definition(self) -> Definition:
        """Schema, time column, sort key and properties at that version."""
        return self.snapshot.definition

    @property
    def blocks(self) -> Blocks:
        """The blocks that are read, by ULID; those that only a listing shows have version 0."""
        if not self.snapshot.listed:
            return self.snapshot.blocks
        listed = (
            LiveBlock(meta=block.meta, version=0, first_row_id=0) for block in self.snapshot.listed
        )
        return self.snapshot.blocks.changed((), listed)

    @property
    def left_out(self) -> Mapping[str, str]:
        """Malformed blocks that may hold rows which no other block holds: ULID to damage.

        Their rows are not read; a ``strict`` snapshot fails instead. Empty unless a listing shows
        blocks.
        """
        return self.snapshot.malformed

    def check_whole(self) -> None:
        """Raise Corrupt, naming them, if blocks were left out."""
        if self.left_out:
            ulid, damage = min(self.left_out.items())
            others = f" (and {len(self.left_out) - 1} more)" if len(self.left_out) > 1 else ""
            raise Corrupt(
                f"block {ulid} of {self.bucket.url}{others} is malformed and may hold rows that "
                f"no other block holds: {damage}; restore it from a copy, or take the snapshot "
                "without strict"
            )

    def count(self) -> int:
        """Return the number of rows; from metadata alone unless rows are hidden."""
        counted = self.snapshot.count()
        if counted is not None:
            return counted
        from blockstore.scan.execute import count_rows

        with _or_expired(self.bucket, self.world, self.version):
            plan = plan_pass(self.snapshot)
            return count_rows(self.bucket, plan, self.world, reads=self.reads)

    def scan(self, *, columns: Iterable[str] | None = None, where: Any = None) -> Scan:
        """Return a scan of the rows that meet ``where``.

        ``where`` is SQL (the documented subset of conditions) or a pyarrow expression. ``columns``
        selects columns, also the hidden ones (``_source``, ``_row_id``, ``_version``), which are
        not read otherwise. Chunks that cannot match are skipped before any data is read.
        """
        names = columns if columns is None or isinstance(columns, str) else list(columns)
        return Scan(
            bucket=self.bucket,
            world=self.world,
            snapshot=self.snapshot,
            columns=names,
            where=where,
            reads=self.reads,
        )

    def dataset(self) -> Any:
        """Return the snapshot as a ``pyarrow.dataset.Dataset``, for DuckDB, Polars
        (``scan_pyarrow_dataset``) and others: they push columns and filters down."""
        from blockstore.scan.dataset import SnapshotDataset

        return SnapshotDataset(self)


@dataclass(frozen=True, kw_only=True)
class Scan:
    """Rows to be read; nothing is read before one of the ``to_…`` methods is called."""

    bucket: ReadBucket
    world: World
    snapshot: Snapshot
    columns: Any = None
    where: Any = None
    reads: Reads | None = None
    """As in ``TableSnapshot``."""

    @once
    def plan(self) -> ScanPlan:
        """The chunks that can match, and counts of what was left out.

        Raises Invalid for unknown columns and conditions.
        """
        return plan_scan(self.snapshot, columns=self.columns, where=self.where)

    @once
    def _read(self) -> ScanPlan:
        """The plan that is read: the one that was looked at, if one was."""
        looked_at: ScanPlan | None = self.__dict__.get("plan")
        if looked_at is not None:
            return looked_at
        return plan_pass(self.snapshot, columns=self.columns, where=self.where)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of record batches, in bounded memory.

        Reading raises VersionExpired if the version was collected before all rows were read,
        ObjectMissing or Corrupt for damage.
        """
        from blockstore.scan.execute import read_plan

        rows = read_plan(self.bucket, self._read, self.world, reads=self.reads)
        return _batches_or_expired(rows, self.bucket, self.world, self.snapshot.version)

    def to_table(self) -> pa.Table:
        """Return the rows as a pyarrow Table."""
        return self.to_reader().read_all()

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        return _needs("pandas", "spark", self.to_table().to_pandas)

    def to_polars(self) -> Any:
        """Return the rows as a polars DataFrame."""

        def convert() -> Any:
            import polars as pl

            return pl.from_arrow(self.to_table())

        return _needs("polars", None, convert)

    def to_duckdb(self) -> Any:
        """Return the rows as a DuckDB relation on a connection of its own."""

        def convert() -> Any:
            import duckdb

            return duckdb.connect().from_arrow(self.to_table())

        return _needs("duckdb", "reader", convert)


@contextmanager
def _or_expired(bucket: ReadBucket, world: World, version: int | None) -> Iterator[None]:
    """Raise VersionExpired for an object, or a leaf of the index, that is missing because the
    version was collected meanwhile."""
    try:
        yield
    except (ObjectMissing, SnapshotExpired) as error:
        expired = None if version is None else _expired(bucket, world, version)
        if expired is None:
            raise
        raise VersionExpired(
            f"the snapshot is too old, its files are being removed: {expired}"
        ) from error


def _batches_or_expired(
    rows: pa.RecordBatchReader, bucket: ReadBucket, world: World, version: int | None
) -> pa.RecordBatchReader:
    """Return the same rows, with the errors of ``_or_expired``."""

    def batches() -> Iterator[pa.RecordBatch]:
        with _or_expired(bucket, world, version):
            yield from rows

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def _expired(bucket: ReadBucket, world: World, version: int) -> VersionExpired | None:
    try:
        Log(bucket, world).at(version)
    except VersionExpired as error:
        return error
    except BlockstoreError:
        return None
    return None


def _needs(package: str, extra: str | None, convert: Any) -> Any:
    try:
        return convert()
    except ModuleNotFoundError as error:
        command = f"pip install 'blocklake[{extra}]'" if extra else f"pip install {package}"
        raise MissingExtra(
            f"{package} is not installed, and the result needs it: run {command}"
        ) from error
