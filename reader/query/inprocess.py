"""Queries run in this process: no hop between processes, and no wall either. What a single user's command needs.

A gateway runs them elsewhere (``workers.py``): here a value that outgrows the memory limit, or a function that does not
let itself be interrupted, is this process's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb
import pyarrow as pa

from reader.query.instance import Instance
from reader.query.task import Running, Task

__all__ = ["InProcess", "relation"]

_BATCH_ROWS = 65_536


class InProcess:
    """A runner on one DuckDB instance."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def start(self, task: Task, began: Callable[[Callable[[], None]], None]) -> Running:
        cursor = self._instance.cursor()
        began(cursor.interrupt)
        try:
            for view in task.views:
                cursor.execute(view)
            found = relation(cursor, task)
            return _Local(cursor, found.to_arrow_reader(_BATCH_ROWS))
        except BaseException:
            cursor.close()
            raise

    def close(self) -> None:
        self._instance.close()


def relation(cursor: duckdb.DuckDBPyConnection, task: Task) -> duckdb.DuckDBPyRelation:
    """The bound query; an error of the binder says where in the SQL."""
    parameters = None if task.parameters is None else _values(task.parameters)
    try:
        found = cursor.sql(task.sql) if parameters is None else cursor.sql(task.sql, params=parameters)
    except (duckdb.BinderException, duckdb.CatalogException):
        # A relation's errors lack the place; bound once more as a statement, the same error has it.
        cursor.execute(task.sql, parameters)
        raise
    return found if task.limit is None else found.limit(task.limit)


def _values(parameters: object) -> object:
    return dict(parameters) if hasattr(parameters, "keys") else list(parameters)  # type: ignore[call-overload]


class _Local:
    def __init__(self, cursor: duckdb.DuckDBPyConnection, stream: pa.RecordBatchReader) -> None:
        self._cursor = cursor
        self._stream = stream
        self.schema = stream.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._stream

    def cancel(self) -> None:
        self._cursor.interrupt()

    def close(self) -> None:
        self._stream.close()
        self._cursor.close()
