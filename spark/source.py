"""The data source behind ``format("blockstore")``.

Spark builds it in a planning process on the driver's machine, never in the user's own process, and
sends pickles of it and of its reader and writer to other processes. So all of them hold values
only, and each process opens its own bucket.

Once Spark has called ``schema``, the source is pinned to the version that it used: the rows of a
DataFrame never change, and always have its schema.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from blockstore.errors import Invalid
from blockstore.spark.feed.options import ChangeOptions, change_options, wants_changes
from blockstore.spark.feed.reader import ChangesReader, ChangesStreamReader
from blockstore.spark.feed.reader import resolved as resolved_changes
from blockstore.spark.reading.data_source import SnapshotReader
from blockstore.spark.reading.options import read_options
from blockstore.spark.reading.target import Target, resolved
from blockstore.spark.streaming.options import is_stream, sink_options, source_options
from blockstore.spark.worker import settle
from blockstore.spark.writing.data_source import TasksWriter
from blockstore.spark.writing.options import write_options
from blockstore.spark.writing.prepare import plan_write
from blockstore.world import World


class BlockstoreSource(DataSource):
    """``spark.read.format("blockstore")`` and ``df.write.format("blockstore")``."""

    _target: Target | None = None
    _changes: ChangeOptions | None = None
    """The changes to read, with their last version, once Spark has called ``schema``."""

    @classmethod
    def name(cls) -> str:
        return "blockstore"

    def schema(self) -> StructType:
        if wants_changes(self.options):
            settle()
            self._changes, columns = resolved_changes(change_options(self.options), World.real())
            return columns
        if is_stream(self.options):
            from blockstore.spark.streaming.source import stream_schema

            return stream_schema(source_options(self.options), World.real())
        settle()
        self._target, _ = resolved(read_options(self.options), World.real())
        return self._target.spark_schema

    def reader(self, schema: StructType) -> DataSourceReader:
        settle()
        if wants_changes(self.options):
            given = self._changes or resolved_changes(change_options(self.options), World.real())[0]
            return ChangesReader(given, schema)
        options, world = read_options(self.options), World.real()
        snapshot = (
            resolved(options, world)[1] if self._target is None else self._target.snapshot(world)
        )
        return SnapshotReader(snapshot, options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        settle()
        options = write_options(self.options, overwrite=overwrite)
        return TasksWriter(plan_write(schema, options, World.real()))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        if wants_changes(self.options):
            options = change_options(self.options)
            given = self._changes or resolved_changes(options, World.real())[0]
            return ChangesStreamReader(replace(options, columns=given.columns), schema)
        from blockstore.spark.streaming.source import TableStreamReader

        return TableStreamReader(source_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from blockstore.spark.streaming.sink import BatchWriter

        options = sink_options(self.options)
        if overwrite:
            raise Invalid(
                f"outputMode('complete') would replace all rows of {options.url} at every "
                "micro-batch, which a stream cannot do: use outputMode('append'), or foreachBatch "
                "with an overwrite of your own."
            )
        return BatchWriter(schema, options)


def register(session: Any) -> None:
    """Make ``format("blockstore")`` known to this session, and make the session active in the
    calling thread.

    Call it where Spark's own lookup does not find the format: one ``pyspark_*`` module that cannot
    be imported disables that lookup. Call it also in a thread that did not create the session.
    Spark looks up the format of a write in the thread's active session; without one, ``save`` fails
    with DATA_SOURCE_NOT_FOUND.
    """
    session.dataSource.register(BlockstoreSource)
    if not type(session).__module__.startswith("pyspark.sql.connect"):
        session._jvm.SparkSession.setActiveSession(session._jsparkSession)
