"""Which snapshot a DataFrame reads, and with which schema: resolved once, then fixed.

A DataFrame is one version of the table. Its plan is made again for every query, but never for
another version, so its rows and its schema do not change while the table grows. A table without an
index has no versions, and blocks that only a listing shows are in none yet. For these the snapshot
itself is kept as it was when the DataFrame was made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import types as st

import blockstore as bs
from blockstore.bucket import open_bucket
from blockstore.index.blocks import Blocks
from blockstore.predicate.nodes import FALSE
from blockstore.predicate.parse import Predicate
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.plan import ScanPlan
from blockstore.scan.snapshot import Snapshot
from blockstore.scan.view import TableSnapshot
from blockstore.spark.reading.options import ReadOptions
from blockstore.spark.types import spark_schema
from blockstore.table import open_any
from blockstore.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A version of a table, and the columns to read."""

    url: str
    version: int | None
    schema: pa.Schema
    not_null: frozenset[str] = frozenset()
    """The columns that the schema declares ``not null``."""
    kept: Snapshot | None = None
    """The snapshot, if no version names all of it: of a table without an index, or from a listing.
    If there is a version, the blocks that its index entry names are left out and read again."""

    @property
    def spark_schema(self) -> st.StructType:
        """The schema of the DataFrame. Raises Invalid for a column whose type Spark lacks."""
        return spark_schema(self.schema, self.not_null)

    def snapshot(self, world: World) -> TableSnapshot:
        """Open the snapshot. Raises VersionExpired once the version was collected."""
        if self.version is None:
            assert self.kept is not None, "a target without a version keeps its snapshot"
            return TableSnapshot(
                bucket=open_bucket(self.url, world), world=world, snapshot=self.kept
            )
        found = bs.open(self.url, world=world).snapshot(version=self.version)
        if self.kept is None:
            return found
        listed = replace(self.kept, blocks=found.snapshot.blocks)
        return TableSnapshot(bucket=found.bucket, world=world, snapshot=listed)


def resolved(options: ReadOptions, world: World) -> tuple[Target, TableSnapshot]:
    """Resolve the options now. Raises Corrupt for a malformed block instead of leaving it out."""
    table = open_any(options.url, world=world)
    if options.listed and table.indexed:
        table = bs.open(options.url, discovery="list", world=world)
    snapshot = table.snapshot(
        version=options.version, as_of=options.as_of, tag=options.tag, strict=True
    )
    # No row satisfies FALSE: the plan costs nothing and has the columns.
    nothing = snapshot.scan(columns=options.columns, where=Predicate(node=FALSE)).plan
    kept = None
    if not table.indexed or snapshot.snapshot.listed:
        kept = replace(snapshot.snapshot, blocks=Blocks.of())
    target = Target(
        url=table.url,
        version=snapshot.version,
        schema=nothing.output_schema,
        not_null=_without_nulls(snapshot.scan(columns=options.columns).plan)
        if options.not_null
        else frozenset(),
        kept=kept,
    )
    return target, snapshot


def _without_nulls(plan: ScanPlan) -> frozenset[str]:
    """The columns of the plan's output without a null in any chunk, by the blocks' statistics.

    An unknown count is taken as a null: hidden columns, labels, columns that are younger than a
    chunk, and every column of a plan without chunks. Declaring these columns is worth it: the null
    check of each value is a quarter of Spark's work for rows from Python.
    """
    stored = (
        [name for name in plan.output_schema.names if name in plan.columns.table.names]
        if plan.chunks
        else []
    )
    return frozenset(
        name for name in stored if all(_none_in(chunk, plan, name) for chunk in plan.chunks)
    )


def _none_in(chunk: ScanChunk, plan: ScanPlan, name: str) -> bool:
    stored_as = plan.reads(chunk.schema_id)[name].stored_as
    found = None if stored_as is None else chunk.file.columns.get(stored_as)
    return found is not None and found.nulls == 0
