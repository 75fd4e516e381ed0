"""The readers behind ``option("changes", "true")``.

Rules:
- The columns are fixed when the DataFrame is made or the query starts, and so is the last version
  of a DataFrame. A name that means another column by then is an error.
- A row with a label that is no column of the query is an error: without it, it would be another
  row.
- A stream's offset is a version and its commit: a batch that Spark runs again has the same rows,
  and a table that was created again under the same URL stops the stream, also one that waits.
- A task opens the table itself, and reads a run of versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

import blockstore as bs
from blockstore.errors import Conflict, HistoryReplaced, Invalid, VersionExpired
from blockstore.format.fields import ids_by_name, replaced
from blockstore.index.idle import IdleLook
from blockstore.index.lives import check_there
from blockstore.spark.feed.options import ChangeOptions
from blockstore.spark.reading.batches import conform
from blockstore.spark.types import batch_schema, spark_schema
from blockstore.spark.worker import task_world
from blockstore.table import Table
from blockstore.world import World

TASK_ROWS = 500_000
"""About so many changed rows are one task's, unless one version has more."""


def resolved(options: ChangeOptions, world: World) -> tuple[ChangeOptions, StructType]:
    """The options with their last version and what names mean now, and the columns."""
    table = bs.open(options.url, world=world)
    try:
        found = table.changes(options.after, options.until)
    except VersionExpired:
        # A stream that is started again reads from its checkpoint, not from here. What reads from
        # here raises this again.
        newest = table.log.state.version
        until, found = options.until or newest, table.changes(newest)
    else:
        until = found.until
    names = ids_by_name(found.form.definition.schema)
    return replace(options, until=until, columns=names), spark_schema(found.schema)


class Versions(InputPartition):
    """What one task reads: the changes after one version, up to another."""

    def __init__(self, after: int, until: int) -> None:
        super().__init__(None)
        self.after = after
        self.until = until


class ChangesReader(DataSourceReader):
    """A DataFrame of changes."""

    def __init__(self, options: ChangeOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        assert options.until is not None, "a DataFrame has a last version"
        table = bs.open(options.url, world=World.real())
        return divided(table, options.after, options.until)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, self._schema, partition)


class ChangesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the changes of one table for one query."""

    def __init__(self, options: ChangeOptions, schema: StructType) -> None:
        if options.until is not None:
            raise Invalid("option 'until' is not for streams: use trigger(availableNow=True).")
        self._options = options
        self._schema = schema
        self._held: tuple[Table, IdleLook] | None = None
        self._target: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        self._table.changes(self._options.after)
        return self._offset(self._options.after)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        newest = self._newest()
        if self._target is not None:
            newest = min(newest, self._target)
        self._check_same(start)
        return start if newest <= start["version"] else self._offset(newest)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._newest()
        self._check_same(start)
        self._check_same(end)
        return divided(self._table, start["version"], end["version"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, self._schema, partition)

    @property
    def _table(self) -> Table:
        return self._opened[0]

    @property
    def _opened(self) -> tuple[Table, IdleLook]:
        if self._held is None:
            table = bs.open(self._options.url, world=World.real())
            self._held = table, IdleLook(table.log, table.world.clock)
        return self._held

    def _newest(self) -> int:
        table, idle = self._opened
        log = table.log
        try:
            idle.look()
            state = log.poll()
            check_there(state, log.bucket.url)
            return state.version
        except HistoryReplaced as error:
            raise Conflict(
                f"the table at {self._options.url} was created again or restored from a copy: "
                f"start the stream with a new checkpoint location ({error})"
            ) from error

    def _offset(self, version: int) -> dict[str, Any]:
        return {"version": version, "commit": self._table.log.state.commits.at(version)}

    def _check_same(self, offset: dict[str, Any]) -> None:
        state = self._table.log.state
        found = state.commits.at(offset["version"])
        if offset["version"] > state.version or (
            offset["commit"] is not None and found not in (None, offset["commit"])
        ):
            raise Conflict(
                f"the stream has read a table at {self._options.url} up to version "
                f"{offset['version']} (commit {offset['commit']}), which the table there does not "
                "have: it was created again or restored from a copy. Start the stream with a new "
                "checkpoint location"
            )


def divided(table: Table, after: int, until: int) -> list[InputPartition]:
    """The versions after one, up to another, in runs for tasks. Raises VersionExpired."""
    if until <= after:
        return []
    # Raises what a task would, before there is one. Where another table was dropped before, after 0
    # is after the creation of this one.
    after = table.changes(after, until).after
    runs: list[InputPartition] = []
    first, rows = after, 0
    try:
        for entry in table.log.entries(after + 1, until):
            rows += sum(block.meta.rows for block in entry.add)
            if rows >= TASK_ROWS and entry.id < until:
                runs.append(Versions(first, entry.id))
                first, rows = entry.id, 0
    except VersionExpired:
        return [Versions(after, until)]  # after a tag: one net difference, then what is left
    return [*runs, Versions(first, until)]


def _read(
    options: ChangeOptions, schema: StructType, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, Versions)
    table = bs.open(options.url, world=task_world())
    found = table.changes(partition.after, partition.until, before_images=options.before_images)
    wanted = batch_schema(schema)
    lost = sorted(set(wanted.names) - set(found.schema.names))
    lost += replaced(options.columns or {}, found.form.definition.schema)
    if lost:
        raise Invalid(
            f"column {lost[0]!r} of {options.url} was renamed, dropped or replaced by another one "
            "of that name: make the DataFrame again, or restart the query"
        )
    labels = [name for name in found.form.labels if name not in wanted.names]
    for batch in found:
        for name in labels:
            if batch[name].null_count < batch.num_rows:
                raise Invalid(
                    f"a row of {options.url} has the label {name!r}, which is a part of what "
                    "identifies it and no column here: make the DataFrame again, or restart the "
                    "query"
                )
        yield conform(batch, wanted)
