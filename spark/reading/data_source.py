"""The data source's read side: chunks that can match, divided among Spark's tasks and read by
pyarrow.

- Chunks are pruned on the driver. A task receives its own chunks, or its part of a large one, and
  no others. Which rows newer versions hide is found on the driver too, once, and travels with each
  chunk.
- Every value is unchanged: conditions are applied exactly, and a value that Spark's types cannot
  store is an error.
- Spark pickles the reader before it calls ``partitions``. So the plan is made in the constructor.
  What only the driver needs does not travel.
- The reader takes no filters of the query: Spark keeps one plan of a reader for all queries of a
  DataFrame, and offers no filters for a query without any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from blockstore.predicate.nodes import FALSE
from blockstore.predicate.parse import Predicate, parse
from blockstore.scan.execute import resolve
from blockstore.scan.plan import ScanPlan
from blockstore.scan.view import TableSnapshot
from blockstore.spark.reading.batches import run_batches
from blockstore.spark.reading.options import ReadOptions
from blockstore.spark.reading.shares import Share, shares


class SharesPartition(InputPartition):
    """What one task reads."""

    def __init__(self, run: tuple[Share, ...]) -> None:
        super().__init__(None)
        self.run = run


class SnapshotReader(DataSourceReader):
    """Reads one version of a table with the schema that Spark passes: its columns, in its order."""

    def __init__(self, snapshot: TableSnapshot, options: ReadOptions, schema: StructType) -> None:
        self._url = snapshot.bucket.url
        self._schema = schema
        self._partition_bytes = options.partition_bytes
        self._snapshot = snapshot
        offered = snapshot.scan(where=Predicate(node=FALSE)).plan.columns
        where = parse(options.where, offered.all)
        plan = snapshot.scan(columns=schema.names, where=where).plan
        self._complete: ScanPlan = plan
        self._plan: ScanPlan = replace(plan, chunks=(), changes=())

    @property
    def schema(self) -> StructType:
        """The schema of the rows."""
        return self._schema

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_snapshot": None, "_complete": None}

    def partitions(self) -> list[InputPartition]:
        snapshot = self._snapshot
        shown = resolve(snapshot.bucket, self._complete, snapshot.world)
        return [SharesPartition(run) for run in shares(shown.chunks, self._partition_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SharesPartition)
        return run_batches(self._url, self._plan, partition.run, self._schema)
