"""Queries in this process: what the command of a single user needs.

There is no cost of a second process, and no protection by one: a value that outgrows the memory
limit, or a function that cannot be interrupted, affects this process. A gateway therefore runs
queries in other processes (``pool.py``).

Ctrl-C stops a query: a query of the main thread runs in another thread (``threads.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from weakref import WeakSet

import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

from blockstore.reader.query.runners.instance import Instance
from blockstore.reader.query.runners.interruptible import Interruptible
from blockstore.reader.query.runners.threads import QueryThread, QueryThreads
from blockstore.reader.query.task import Given, Running, Task

_BATCH_ROWS = 65_536

_NOT_IN_ARROW = frozenset({"uhugeint", "bignum", "bit", "time with time zone"})
_NESTED = frozenset({"list", "array", "struct", "map", "union"})

_TO_END_S = 2.0
"""How long all queries have to end when their engine is closed."""


class InProcess:
    """A runner on one DuckDB instance."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._threads = QueryThreads()
        self._lock = threading.Lock()
        self._queries: WeakSet[Interruptible] = WeakSet()
        self.ready = True

    def start(
        self,
        task: Task,
        began: Callable[[Callable[[], None]], None],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Running:
        meanwhile()
        cursor = self._instance.cursor()
        query = Interruptible(cursor.interrupt)
        with self._lock:
            self._queries.add(query)
        began(query.stop)
        thread = QueryThread(self._threads, query.stop)

        def begin() -> tuple[pa.RecordBatchReader, _Some]:
            with query.calling():
                prepare(cursor, task)
                stream = relation(cursor, task).to_arrow_reader(_BATCH_ROWS)
                return stream, _some(stream)

        try:
            return _Local(cursor, query, thread, *thread.run(begin))
        except BaseException:
            thread.end(cursor.close)
            raise

    def close(self) -> None:
        with self._lock:
            queries = list(self._queries)
        for query in queries:
            query.stop()
        for query in queries:
            query.idle(within_s=_TO_END_S / len(queries))
        self._instance.close()
        self._threads.close()


def prepare(cursor: duckdb.DuckDBPyConnection, task: Task) -> None:
    """Create the views of the task."""
    for step in task.views:
        if isinstance(step, Given):
            cursor.register(step.name, step.rows)
        else:
            cursor.execute(*step)


def relation(cursor: duckdb.DuckDBPyConnection, task: Task) -> duckdb.DuckDBPyRelation:
    """The bound query; an error of the binder gives the position in the SQL. Raises
    NotImplementedException for a column whose values Arrow has no type for."""
    parameters = None if task.parameters is None else _values(task.parameters)
    try:
        found = (
            cursor.sql(task.sql) if parameters is None else cursor.sql(task.sql, params=parameters)
        )
    except (duckdb.BinderException, duckdb.CatalogException):
        # The error of a relation has no position; the same error of a statement has one.
        cursor.execute(task.sql, parameters)
        raise
    for name, kind in zip(found.columns, found.types, strict=True):
        lost = _not_in_arrow(kind)
        if lost is not None:
            raise duckdb.NotImplementedException(
                f"Not implemented Error: column {name!r} has values of the type {lost}, which no "
                f"result can hold: cast it, for example to varchar"
            )
    return found if task.limit is None else found.limit(task.limit)


def _not_in_arrow(kind: DuckDBPyType) -> str | None:
    """The type within a type of which DuckDB makes other values in Arrow, without an error."""
    if kind.id in _NOT_IN_ARROW:
        return str(kind)
    parts = (child for _, child in kind.children) if kind.id in _NESTED else ()
    own = (_not_in_arrow(part) for part in parts if isinstance(part, DuckDBPyType))
    return next((one for one in own if one is not None), None)


def _values(parameters: object) -> object:
    return dict(parameters) if hasattr(parameters, "keys") else list(parameters)  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class _Some:
    """The next batches of a stream, at most two."""

    batches: Sequence[pa.RecordBatch]
    over: bool
    """Whether these are known to be the last ones."""


def _some(stream: pa.RecordBatchReader) -> _Some:
    """One batch; after one that is not full, which is usually the last, also the next. So most
    results need no second change of threads."""
    batch = next(stream, None)
    if batch is None or batch.num_rows >= _BATCH_ROWS:
        return _Some(() if batch is None else (batch,), over=batch is None)
    other = next(stream, None)
    return _Some((batch,) if other is None else (batch, other), over=other is None)


class _Local:
    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        query: Interruptible,
        thread: QueryThread,
        stream: pa.RecordBatchReader,
        first: _Some,
    ) -> None:
        self._cursor = cursor
        self._query = query
        self._thread = thread
        self._stream = stream
        self._first: _Some | None = first
        self.schema = stream.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        some, self._first = self._first, None
        while some is not None:
            yield from some.batches
            some = None if some.over else self._thread.run(self._next)

    def cancel(self) -> None:
        self._query.stop()

    def close(self) -> None:
        self._first = None
        self._thread.end(self._let_go)

    def _next(self) -> _Some:
        with self._query.calling():
            return _some(self._stream)

    def _let_go(self) -> None:
        self._stream.close()
        self._cursor.close()
