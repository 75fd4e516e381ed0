"""A DB-API 2.0 door (PEP 249) to a gateway: for tools that speak it. Reading only; parameters are
``?``.

from blockstore.client import dbapi
with dbapi.connect("http://127.0.0.1:8080") as connection:
    cursor = connection.cursor()
    cursor.execute("select * from flights where origin = ?", ["JFK"])
    cursor.fetchall()
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any

import pyarrow as pa

from blockstore.client.client import Client
from blockstore.errors import (
    AccessDenied,
    BlockstoreError,
    Corrupt,
    Invalid,
    NoMemory,
    NotFound,
    Unavailable,
)

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"


class Warning(builtins.Warning):  # noqa: A001 - the name that PEP 249 gives
    """PEP 249."""


class Error(Exception):
    """PEP 249: the root of this module's errors; ``__cause__`` is the project's own."""


class InterfaceError(Error):
    """The connection or the cursor was closed, or nothing was executed."""


class DatabaseError(Error):
    """What the gateway said."""


class DataError(DatabaseError):
    """A value is none that Python has."""


class OperationalError(DatabaseError):
    """The gateway did not answer, was busy, or the query took too much."""


class IntegrityError(DatabaseError):
    """PEP 249."""


class InternalError(DatabaseError):
    """Stored bytes contradict the format."""


class ProgrammingError(DatabaseError):
    """The SQL is wrong, or names no table; or the token may not."""


class NotSupportedError(DatabaseError):
    """What writes: ``executemany``."""


def connect(url: str, token: str | None = None, **more: Any) -> Connection:
    """A connection; ``more`` is what ``Client`` takes."""
    return Connection(Client(url, token, **more))


class Connection:
    """A client; its cursors read."""

    def __init__(self, client: Client) -> None:
        self._client: Client | None = client

    def cursor(self) -> Cursor:
        """A new cursor."""
        return Cursor(self._open())

    def commit(self) -> None:
        """Nothing: every query reads a snapshot."""
        self._open()

    def rollback(self) -> None:
        """Nothing: no transaction is ever open, so all of it is undone.

        Pools call this on each connection that comes back.
        """
        self._open()

    def close(self) -> None:
        """Let the connections go."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> Client:
        if self._client is None:
            raise InterfaceError("the connection is closed: connect again")
        return self._client


class Cursor:
    """One query at a time; rows come as they are fetched, in bounded memory. An answer that broke
    off stays broken: each later fetch raises the same, until the next ``execute``, so half of one
    is never taken for whole."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stack = ExitStack()
        self._rows: Iterator[tuple[Any, ...]] | None = None
        self._broken: Error | None = None
        self._closed = False
        self.arraysize = 1
        self.description: list[tuple[str, Any, None, None, None, None, bool]] | None = None
        self.rowcount = -1

    def execute(self, operation: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Cursor:
        """Ask; rows are then fetched.

        Dates and times among the parameters are sent as ISO texts.
        """
        self._check()
        self._end()
        try:
            rows = self._client.sql(operation, parameters)
            reader = self._stack.enter_context(rows.stream())
        except BlockstoreError as error:
            raise _of(error) from error
        self.description = [
            (one.name, one.type, None, None, None, None, one.nullable) for one in reader.schema
        ]
        self._rows = _tuples(reader)
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Any]) -> None:
        """PEP 249 leaves it to statements that answer no rows: there are none."""
        raise NotSupportedError("a gateway is read through this door: execute one query at a time")

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None."""
        found = self.fetchmany(1)
        return found[0] if found else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, ``arraysize`` if it is not said how many."""
        return self._next(max(0, self.arraysize if size is None else size))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return self._next(None)

    def close(self) -> None:
        """End the query."""
        self._end()
        self._closed = True

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing, as PEP 249 allows."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self, most: int | None) -> list[tuple[Any, ...]]:
        """So many rows, or all; the one place that reads."""
        self._check()
        if self._broken is not None:
            raise type(self._broken)(str(self._broken)) from self._broken.__cause__
        if self._rows is None:
            raise InterfaceError("nothing was executed: execute a query first")
        try:
            return list(islice(self._rows, most))
        except Exception as error:
            broken = _of(error)
            self._break(broken)
            raise broken from error
        except BaseException:
            # Part of the rows is lost with it: what is left is not the rest.
            self._break(OperationalError("the fetch was interrupted: execute the query again"))
            raise

    def _break(self, broken: Error) -> None:
        self._end()
        self._broken = broken

    def _check(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed: make another")

    def _end(self) -> None:
        self._stack.close()
        self._rows, self._broken, self.description = None, None, None


def _tuples(reader: pa.RecordBatchReader) -> Iterator[tuple[Any, ...]]:
    for batch in reader:
        columns = [column.to_pylist() for column in batch.columns]
        yield from zip(*columns, strict=True)


def _of(error: Exception) -> Error:
    message = str(error)
    if not isinstance(error, BlockstoreError):
        return DataError(
            f"a value is none that Python has ({message}): cast the column to VARCHAR in the SQL"
        )
    if isinstance(error, Corrupt):
        return InternalError(message)
    if isinstance(error, Unavailable | NoMemory):
        return OperationalError(message)
    if isinstance(error, Invalid | NotFound | AccessDenied):
        return ProgrammingError(message)
    return DatabaseError(message)
