"""Queries run in this process: no hop between processes, and no wall either. What a single user's command needs.

A gateway runs them elsewhere (``workers.py``): here a value that outgrows the memory limit, or a function that does not
let itself be interrupted, is this process's own.

Ctrl-C stops a query: a signal is heard by the main thread alone, and by none while that is inside DuckDB, so there
DuckDB gets a thread of its own and the main thread waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import TypeVar

import duckdb
import pyarrow as pa

from reader.query.instance import Instance
from reader.query.task import Running, Task

__all__ = ["InProcess", "relation"]

A = TypeVar("A")

_BATCH_ROWS = 65_536
_TO_STOP_S = 2.0
"""How long an interrupted query has to end; then it is left to itself."""


class InProcess:
    """A runner on one DuckDB instance."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def start(self, task: Task, began: Callable[[Callable[[], None]], None]) -> Running:
        cursor = self._instance.cursor()
        began(cursor.interrupt)

        def begin() -> pa.RecordBatchReader:
            for view in task.views:
                cursor.execute(view)
            return relation(cursor, task).to_arrow_reader(_BATCH_ROWS)

        try:
            return _Local(cursor, _stoppable(cursor, begin))
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
        while (batch := _stoppable(self._cursor, self._next)) is not None:
            yield batch

    def cancel(self) -> None:
        self._cursor.interrupt()

    def close(self) -> None:
        self._stream.close()
        self._cursor.close()

    def _next(self) -> pa.RecordBatch | None:
        try:
            return self._stream.read_next_batch()
        except StopIteration:
            return None


def _stoppable(cursor: duckdb.DuckDBPyConnection, call: Callable[[], A]) -> A:
    """What ``call`` answers or raises; an interruption of the main thread ends the cursor's query first."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    future: Future[A] = Future()
    threading.Thread(target=_carry_out, args=(future, call), name="query", daemon=True).start()
    try:
        return future.result()
    except KeyboardInterrupt:
        # Asked again and again: what is asked before the query has begun is forgotten.
        for _ in range(round(_TO_STOP_S / 0.05)):
            cursor.interrupt()
            if wait([future], timeout=0.05).done:
                break
        raise


def _carry_out(future: Future[A], call: Callable[[], A]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - raised by whoever waits
        future.set_exception(error)
