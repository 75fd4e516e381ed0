"""The streaming source: what ``spark.readStream.format("blockstore")`` asks for, answered from the
table's index.

- An offset is a ``Position``. Spark asks for the next one, plans the rows between two of them, and
  keeps where each batch ends in its checkpoint; a batch that was planned is planned again after a
  restart, and has the same rows.
- Where the first batch begins Spark does not keep: it asks when it plans that batch and again when
  it runs it. So a reader answers the same each time, and the end of that batch carries where it
  began, which holds after a restart.
- The schema is fixed when the query starts. Columns that the table gets later are seen after a
  restart, and so are labels that nobody named; a block without a label has null there.
- One process answers for a query as long as it runs; tasks are handed whole plans, and open their
  own bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

import blockstore as bs
from blockstore.bucket import open_bucket
from blockstore.errors import Invalid
from blockstore.format.definition import Definition
from blockstore.index.blocks import Blocks
from blockstore.scan.execute import read_part, read_plan
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.spark.reading.batches import conform
from blockstore.spark.reading.shares import shares
from blockstore.spark.streaming.follower import NO_LIMIT, Follower, Limit, Window
from blockstore.spark.streaming.options import StreamReadOptions
from blockstore.spark.streaming.position import Position
from blockstore.spark.types import batch_schema, spark_schema
from blockstore.spark.worker import task_world
from blockstore.table import Table
from blockstore.world import World


def stream_schema(options: StreamReadOptions, world: World) -> StructType:
    """The columns of a stream.

    Raises Invalid for a column or a condition that the table does not know.
    """
    table = _opened(options, world)
    nothing = Snapshot(definition=table.definition, version=table.log.state.version)
    try:
        plan = plan_scan(
            nothing, columns=options.columns, where=options.where, labels=_labels(table, options)
        )
    except Invalid as error:
        raise Invalid(
            f"{error}; a label that no block bears now is named in option('labels', 'a,b')"
        ) from error
    return spark_schema(plan.output_schema)


class PlanPartition(InputPartition):
    """What one task reads: a plan with its own chunks, or one part of the row groups of a large
    one."""

    def __init__(self, plan: ScanPlan, part: int = 0, parts: int = 1) -> None:
        super().__init__(None)
        self.plan = plan
        self.part = part
        self.parts = parts


@dataclass(slots=True)
class _Following:
    """What only the process that follows the table holds."""

    table: Table
    follower: Follower
    labels: tuple[str, ...]
    begun: Position | None = None
    """Where the query was told to begin."""
    last: Window | None = None
    """What the last answer was based on: Spark asks for its partitions next."""
    target: int | None = None
    """The version at which a query with Trigger.AvailableNow ends."""


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows one table for one query."""

    def __init__(self, options: StreamReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._following: _Following | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_following": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        here = self._here
        if here.begun is None:
            here.begun = here.follower.begin(self._options.start, self._latest())
        return here.begun.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_blocks is not None:
            return ReadMaxFiles(self._options.max_blocks)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        here = self._here
        first = Position.from_json(start)
        begins = first == here.begun
        window = here.follower.window(
            replace(first, begun=None), self._latest(), self._limit(limit)
        )
        if window.end == window.start and not begins:
            return start
        here.last = window
        # Spark runs a first batch also without rows: it must not get any when it runs again.
        return (replace(window.end, begun=first) if begins else window.end).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return Position(version=self._here.table.log.state.version).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._here.target = self._here.follower.newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        here = self._here
        first, last = Position.from_json(start), Position.from_json(end)
        if last.begun is not None and start != end:
            # The first batch: what the checkpoint says, and not a start that was asked for again.
            # Where both are the same Spark asks for nothing new: it takes up a query whose first
            # batch was its last.
            first = last.begun
        first, last = replace(first, begun=None), replace(last, begun=None)
        window = here.last
        if window is None or (window.start, window.end) != (first, last):
            here.follower.newest()
            window = here.follower.between(first, last)
        plan = self._plan(here.table.definition, here.labels, window)
        runs = shares(plan.chunks, self._options.partition_bytes) if plan.chunks else []
        return [
            PlanPartition(
                replace(plan, chunks=tuple(share.chunk for share in run)), run[0].part, run[0].parts
            )
            for run in runs
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PlanPartition)
        world = task_world()
        bucket = open_bucket(self._options.url, world)
        wanted = batch_schema(self._schema)
        if partition.parts > 1:
            batches: Iterator[pa.RecordBatch] = read_part(
                bucket, partition.plan, part=partition.part, parts=partition.parts
            )
        else:
            batches = iter(read_plan(bucket, partition.plan, world))
        for batch in batches:
            yield conform(batch, wanted)

    def _plan(self, definition: Definition, labels: tuple[str, ...], window: Window) -> ScanPlan:
        snapshot = Snapshot(
            definition=definition, version=window.end.version, blocks=Blocks.of(window.blocks)
        )
        return plan_scan(
            snapshot, columns=self._schema.names, where=self._options.where, labels=labels
        )

    def _limit(self, limit: ReadLimit) -> Limit:
        """Ours, where Spark asks for what ``getDefaultReadLimit`` said: it can say one of the two
        only."""
        if isinstance(limit, ReadAllAvailable):
            return NO_LIMIT
        return Limit(blocks=self._options.max_blocks, bytes=self._options.max_bytes)

    def _latest(self) -> int:
        """The newest version, as far as the query may go."""
        here = self._here
        newest = here.follower.newest()
        return newest if here.target is None else min(newest, here.target)

    @property
    def _here(self) -> _Following:
        if self._following is None:
            world = World.real()
            table = _opened(self._options, world)
            self._following = _Following(
                table=table,
                follower=Follower(
                    table.log, ignores_removal=self._options.ignores_removal, clock=world.clock
                ),
                labels=_labels(table, self._options),
            )
        return self._following


def _opened(options: StreamReadOptions, world: World) -> Table:
    """The table. Raises Invalid where it has no versions to follow."""
    table = bs.open(options.url, world=world)
    table.log  # noqa: B018 - raises Invalid for a table without an index
    return table


def _labels(table: Table, options: StreamReadOptions) -> tuple[str, ...]:
    """Every label column that the stream may name: those that blocks bear, the table's own, and
    those that were named."""
    borne = Snapshot.of(table.log.state).label_names
    return tuple(sorted({*borne, *table.definition.labels, *options.labels}))
