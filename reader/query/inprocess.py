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
from queue import SimpleQueue
from typing import Any, TypeVar

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
        beside = _Beside(cursor)

        def begin() -> tuple[pa.RecordBatchReader, pa.RecordBatch | None]:
            for statement, values in task.views:
                cursor.execute(statement, values)
            stream = relation(cursor, task).to_arrow_reader(_BATCH_ROWS)
            # Most answers are one batch: read at once, it saves a change of threads.
            return stream, next(stream, None)

        try:
            return _Local(cursor, beside, *beside.run(begin))
        except BaseException:
            beside.close()
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
    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        beside: _Beside,
        stream: pa.RecordBatchReader,
        first: pa.RecordBatch | None,
    ) -> None:
        self._cursor = cursor
        self._beside = beside
        self._stream = stream
        self._first = first
        self.schema = stream.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        batch, self._first = self._first, None
        while batch is not None:
            yield batch
            batch = self._beside.run(lambda: next(self._stream, None))

    def cancel(self) -> None:
        self._cursor.interrupt()

    def close(self) -> None:
        self._first = None
        self._beside.close()
        self._stream.close()
        self._cursor.close()


class _Beside:
    """Runs calls of the main thread in a thread beside it, one after the other, so that they can be interrupted."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] | None = None

    def run(self, call: Callable[[], A]) -> A:
        """What ``call`` answers or raises; an interruption of the main thread ends the cursor's query first."""
        if threading.current_thread() is not threading.main_thread():
            return call()
        if self._calls is None:
            self._calls = SimpleQueue()
            threading.Thread(target=_carry_out, args=(self._calls,), name="query", daemon=True).start()
        future: Future[A] = Future()
        self._calls.put((future, call))
        try:
            return future.result()
        except KeyboardInterrupt:
            # Asked again and again: what is asked before the query has begun is forgotten.
            for _ in range(round(_TO_STOP_S / 0.05)):
                self._cursor.interrupt()
                if wait([future], timeout=0.05).done:
                    break
            raise

    def close(self) -> None:
        """Let the thread go once it has done what it does."""
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.put(None)


def _carry_out(calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]) -> None:
    while (asked := calls.get()) is not None:
        future, call = asked
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits
            future.set_exception(error)
        del asked, future, call  # a thread that waits holds nothing of what it has answered
