"""The streaming source behind ``spark.readStream.format("blockstore")``, which reads the index.

- An offset is a ``Position``. Spark requests the next one, plans the rows between two of them, and
  keeps the end of each batch in its checkpoint. After a restart a planned batch is planned again,
  and has the same rows.
- Spark does not keep where the first batch begins: it requests this when it plans that batch and
  again when it runs it. So a reader returns the same position each time, and the end of that batch
  contains its beginning, which is valid after a restart.
- The schema is fixed when the query starts. A name that means another column by then is an error.
  Columns that the table gets later are seen after a restart, and so are labels that no option
  named. A block without a label has null there.
- A table whose rows change is not followed: its blocks hold versions of rows, new ones and new
  images of old ones together, and a stream of them would deliver these as more rows.
- One process serves a query as long as it runs. Tasks receive complete plans, and open their own
  bucket.
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
from blockstore.errors import Invalid
from blockstore.format.fields import ids_by_name, replaced
from blockstore.index.blocks import Blocks
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.spark.reading.batches import run_batches
from blockstore.spark.reading.shares import Share, shares
from blockstore.spark.streaming.follower import NO_LIMIT, Follower, Limit, Window
from blockstore.spark.streaming.options import StreamReadOptions
from blockstore.spark.streaming.position import Position
from blockstore.spark.types import spark_schema
from blockstore.table import Table
from blockstore.world import World


def stream_schema(options: StreamReadOptions, world: World) -> StructType:
    """The columns of a stream. Raises Invalid for a column or condition unknown to the table."""
    table = _opened(options, world)
    nothing = Snapshot(definition=table.definition, version=table.log.state.version)
    try:
        plan = plan_scan(
            nothing, columns=options.columns, where=options.where, labels=_labels(table, options)
        )
    except Invalid as error:
        raise Invalid(
            f"{error}; name a label that no block has yet in option('labels', 'a,b')"
        ) from error
    return spark_schema(plan.output_schema)


class PlanPartition(InputPartition):
    """What one task reads: its shares of a plan, whose own chunks are left out."""

    def __init__(self, plan: ScanPlan, run: tuple[Share, ...]) -> None:
        super().__init__(None)
        self.plan = plan
        self.run = run


@dataclass(slots=True)
class _State:
    """The state of the process that follows the table."""

    table: Table
    follower: Follower
    labels: tuple[str, ...]
    columns: dict[str, int | None]
    """Which column each name meant when the query started."""
    begun: Position | None = None
    """Where the query begins."""
    last: Window | None = None
    """The window of the last offset: Spark requests its partitions next."""
    target: int | None = None
    """The version at which a query with Trigger.AvailableNow ends."""


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows one table for one query."""

    def __init__(self, options: StreamReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._state: _State | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_state": None}

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
        # Spark also runs a first batch without rows, which must have none when it runs again.
        return (replace(window.end, begun=first) if begins else window.end).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return Position(version=self._here.table.log.state.version).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._here.target = self._here.follower.newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        here = self._here
        first, last = Position.from_json(start), Position.from_json(end)
        if last.begun is not None and start != end:
            # The first batch: use the checkpoint's beginning, not a newly requested one. If both
            # are equal nothing is new: Spark resumes a query whose first batch was its last.
            first = last.begun
        first, last = replace(first, begun=None), replace(last, begun=None)
        window = here.last
        if window is None or (window.start, window.end) != (first, last):
            here.follower.newest()
            window = here.follower.between(first, last)
        plan = self._plan(here, window)
        runs = shares(plan.chunks, self._options.partition_bytes) if plan.chunks else []
        return [PlanPartition(replace(plan, chunks=()), run) for run in runs]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PlanPartition)
        return run_batches(self._options.url, partition.plan, partition.run, self._schema)

    def _plan(self, here: _State, window: Window) -> ScanPlan:
        definition = here.table.definition
        others = replaced(here.columns, definition.schema)
        if others:
            raise Invalid(
                f"column {others[0]!r} of {self._options.url} was replaced by another one of that "
                "name: restart the query"
            )
        snapshot = Snapshot(
            definition=definition, version=window.end.version, blocks=Blocks.of(window.blocks)
        )
        return plan_scan(
            snapshot, columns=self._schema.names, where=self._options.where, labels=here.labels
        )

    def _limit(self, limit: ReadLimit) -> Limit:
        """The options' limits, unless Spark requests everything: ``getDefaultReadLimit`` can return
        only one of the two."""
        if isinstance(limit, ReadAllAvailable):
            return NO_LIMIT
        return Limit(blocks=self._options.max_blocks, bytes=self._options.max_bytes)

    def _latest(self) -> int:
        """The newest version that the query may read."""
        here = self._here
        newest = here.follower.newest()
        return newest if here.target is None else min(newest, here.target)

    @property
    def _here(self) -> _State:
        if self._state is None:
            world = World.real()
            table = _opened(self._options, world)
            self._state = _State(
                table=table,
                follower=Follower(
                    table.log, ignores_removal=self._options.ignores_removal, clock=world.clock
                ),
                labels=_labels(table, self._options),
                columns=ids_by_name(table.definition.schema),
            )
        return self._state


def _opened(options: StreamReadOptions, world: World) -> Table:
    """The table. Raises Invalid if it has no versions to follow, or if its rows change."""
    table = bs.open(options.url, world=world)
    table.log  # noqa: B018 - raises Invalid for a table without an index
    if table.definition.identity is not None:
        raise Invalid(
            f"the rows of {options.url} change, and a stream would deliver every version of a row "
            "as one more row: read its changes with option('changes', 'true'), or its current rows "
            "with spark.read"
        )
    return table


def _labels(table: Table, options: StreamReadOptions) -> tuple[str, ...]:
    """Every label column of the stream: those of blocks, of the table, and of the options."""
    of_blocks = Snapshot.of(table.log.state).label_names
    return tuple(sorted({*of_blocks, *table.definition.labels, *options.labels}))
