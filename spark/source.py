"""The data source behind ``format("blockstore")``.

Spark builds it in a planning process on the driver's machine, never in the user's own, and hands pickles of it and of
its reader and writer to others. So all of them hold values only, and every process opens its own bucket.

A source that was asked for its schema is pinned to the version that answered: a DataFrame's rows never change under
it, and always have its schema.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader
from pyspark.sql.types import StructType

from blockstore.errors import Invalid
from blockstore.world import World
from spark.options import read_options, write_options
from spark.planning import plan_write
from spark.reader import FilteringReader, SnapshotReader
from spark.target import Target, resolved
from spark.writer import TasksWriter

__all__ = ["BlockstoreSource"]


class BlockstoreSource(DataSource):
    """``spark.read.format("blockstore")`` and ``df.write.format("blockstore")``."""

    _target: Target | None = None

    @classmethod
    def name(cls) -> str:
        return "blockstore"

    def schema(self) -> StructType:
        self._target, _ = resolved(read_options(self.options), World.real())
        return self._target.spark_schema

    def reader(self, schema: StructType) -> DataSourceReader:
        options, world = read_options(self.options), World.real()
        snapshot = resolved(options, world)[1] if self._target is None else self._target.snapshot(world)
        return (FilteringReader if options.filters else SnapshotReader)(snapshot, options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        options = write_options(self.options)
        if overwrite:
            raise Invalid(
                f"mode('overwrite') cannot replace the rows of {options.url}: use mode('append'), or write the rows "
                "to a table of another name."
            )
        return TasksWriter(plan_write(schema, options, World.real()))
