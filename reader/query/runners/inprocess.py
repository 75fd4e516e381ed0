"""Queries run in this process: no hop between processes, and no wall either. What a single user's
command needs.

A gateway runs them elsewhere (``workers.py``): here a value that outgrows the memory limit, or a
function that does not let itself be interrupted, is this process's own.

Ctrl-C stops a query: where the main thread asks, another carries it out (``beside.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from weakref import WeakSet

import duckdb
import pyarrow as pa

from blockstore.reader.query.runners.instance import Instance
from blockstore.reader.query.runners.interruptible import Interruptible
from blockstore.reader.query.runners.threads import Beside, Carriers
from blockstore.reader.query.task import Running, Task

_BATCH_ROWS = 65_536

_TO_END_S = 2.0
"""How long all queries have to end when their engine is closed."""


class InProcess:
    """A runner on one DuckDB instance."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._carriers = Carriers()
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
        beside = Beside(self._carriers, query.stop)

        def begin() -> tuple[pa.RecordBatchReader, _Some]:
            with query.calling():
                for statement, values in task.views:
                    cursor.execute(statement, values)
                stream = relation(cursor, task).to_arrow_reader(_BATCH_ROWS)
                return stream, _some(stream)

        try:
            return _Local(cursor, query, beside, *beside.run(begin))
        except BaseException:
            beside.end(cursor.close)
            raise

    def close(self) -> None:
        with self._lock:
            queries = list(self._queries)
        for query in queries:
            query.stop()
        for query in queries:
            query.idle(within_s=_TO_END_S / len(queries))
        self._instance.close()
        self._carriers.close()


def relation(cursor: duckdb.DuckDBPyConnection, task: Task) -> duckdb.DuckDBPyRelation:
    """The bound query; an error of the binder says where in the SQL."""
    parameters = None if task.parameters is None else _values(task.parameters)
    try:
        found = (
            cursor.sql(task.sql) if parameters is None else cursor.sql(task.sql, params=parameters)
        )
    except (duckdb.BinderException, duckdb.CatalogException):
        # A relation's errors lack the place; bound once more as a statement, the same error has it.
        cursor.execute(task.sql, parameters)
        raise
    return found if task.limit is None else found.limit(task.limit)


def _values(parameters: object) -> object:
    return dict(parameters) if hasattr(parameters, "keys") else list(parameters)  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class _Some:
    """The next batches of a stream, at most two."""

    batches: Sequence[pa.RecordBatch]
    over: bool
    """Whether it is known that none come after them."""


def _some(stream: pa.RecordBatchReader) -> _Some:
    """One batch, and after one that is not full, which is mostly the last, the next as well: most
    answers need no second change of threads so."""
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
        beside: Beside,
        stream: pa.RecordBatchReader,
        first: _Some,
    ) -> None:
        self._cursor = cursor
        self._query = query
        self._beside = beside
        self._stream = stream
        self._first: _Some | None = first
        self.schema = stream.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        some, self._first = self._first, None
        while some is not None:
            yield from some.batches
            some = None if some.over else self._beside.run(self._next)

    def cancel(self) -> None:
        self._query.stop()

    def close(self) -> None:
        self._first = None
        self._beside.end(self._let_go)

    def _next(self) -> _Some:
        with self._query.calling():
            return _some(self._stream)

    def _let_go(self) -> None:
        self._stream.close()
        self._cursor.close()
