"""What a user reads: a snapshot with the bucket that it was read from, and scans over it.

A ``TableSnapshot`` never changes: it answers the same rows however often it is asked, while the
table goes on. Rows are read when a scan is turned into something (``to_reader``, ``to_table``, …),
in the order of blocks and chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from blockstore.bucket import ReadBucket
from blockstore.errors import Corrupt, MissingExtra
from blockstore.format.definition import Definition
from blockstore.index.blocks import Blocks
from blockstore.index.rows import LiveBlock
from blockstore.scan.expiring import batches_or_expired, or_expired
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.world import World


@dataclass(frozen=True, kw_only=True)
class TableSnapshot:
    """A table at one version."""

    bucket: ReadBucket
    world: World
    snapshot: Snapshot

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
        """Malformed blocks that a listing shows and that may hold rows which no other block holds:
        ULID to damage.

        Their rows are not read; a ``strict`` snapshot fails instead. Empty for a snapshot by the
        index.
        """
        return self.snapshot.malformed

    def check_whole(self) -> None:
        """Raise Corrupt, naming them, if blocks were left out."""
        if self.left_out:
            ulid, damage = min(self.left_out.items())
            others = f" (and {len(self.left_out) - 1} more)" if len(self.left_out) > 1 else ""
            raise Corrupt(
                f"block {ulid} of {self.bucket.url}{others} is malformed and may hold rows that "
                "no other block holds: "
                f"{damage}; restore it from a copy, or take the snapshot without strict"
            )

    def count(self) -> int:
        """The number of rows; from metadata alone wherever no row is hidden."""
        counted = self.snapshot.count()
        if counted is not None:
            return counted
        from blockstore.scan.execute import count_rows

        with or_expired(self.bucket, self.world, self.version):
            return count_rows(self.bucket, self.scan().plan, self.world)

    def scan(self, *, columns: Iterable[str] | None = None, where: Any = None) -> Scan:
        """The rows that meet ``where`` (a stated subset of SQL conditions, or a pyarrow
        expression).

        ``columns`` picks columns, also the hidden ones (``_source``, ``_row_id``, ``_version``),
        which are not read otherwise. Chunks that cannot match are left out before a byte of data is
        read.
        """
        names = columns if columns is None or isinstance(columns, str) else list(columns)
        return Scan(
            bucket=self.bucket, world=self.world, snapshot=self.snapshot, columns=names, where=where
        )


@dataclass(frozen=True, kw_only=True)
class Scan:
    """Rows to be read; nothing is read before one of the ``to_…`` methods."""

    bucket: ReadBucket
    world: World
    snapshot: Snapshot
    columns: Any = None
    where: Any = None

    @cached_property
    def plan(self) -> ScanPlan:
        """The chunks that can match, and what was left out.

        Raises Invalid for unknown columns and conditions.
        """
        return plan_scan(self.snapshot, columns=self.columns, where=self.where)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of record batches, in bounded memory. Raises VersionExpired where
        the version was collected before all were read, ObjectMissing or Corrupt for damage."""
        from blockstore.scan.execute import read_plan

        rows = read_plan(self.bucket, self.plan, self.world)
        return batches_or_expired(rows, self.bucket, self.world, self.snapshot.version)

    def to_table(self) -> pa.Table:
        """The rows as a pyarrow Table."""
        return self.to_reader().read_all()

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame."""
        return _needs("pandas", "spark", self.to_table().to_pandas)

    def to_polars(self) -> Any:
        """The rows as a polars DataFrame."""

        def convert() -> Any:
            import polars as pl

            return pl.from_arrow(self.to_table())

        return _needs("polars", None, convert)

    def to_duckdb(self) -> Any:
        """The rows as a DuckDB relation on a connection of its own."""

        def convert() -> Any:
            import duckdb

            return duckdb.connect().from_arrow(self.to_table())

        return _needs("duckdb", "reader", convert)


def _needs(package: str, extra: str | None, convert: Any) -> Any:
    try:
        return convert()
    except ModuleNotFoundError as error:
        command = f"pip install 'blocklake[{extra}]'" if extra else f"pip install {package}"
        raise MissingExtra(
            f"{package} is not installed, and this answer needs it: {command}"
        ) from error
