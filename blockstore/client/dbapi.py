"""A DB-API 2.0 driver (PEP 249) for a gateway. It only reads; parameters are ``?``.

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
    """An error of the gateway."""


class DataError(DatabaseError):
    """A value that Python cannot represent."""


class OperationalError(DatabaseError):
    """The gateway did not respond or was busy, or the query exceeded a limit."""


class IntegrityError(DatabaseError):
    """PEP 249."""


class InternalError(DatabaseError):
    """Stored bytes violate the format."""


class ProgrammingError(DatabaseError):
    """The SQL is invalid or names an unknown table, or the token may not."""


class NotSupportedError(DatabaseError):
    """A call that writes: ``executemany``."""


def connect(url: str, token: str | None = None, **more: Any) -> Connection:
    """A connection; ``more`` are arguments of ``Client``."""
    return Connection(Client(url, token, **more))


class Connection:
    """A client; its cursors read."""

    def __init__(self, client: Client) -> None:
        self._client: Client | None = client

    def cursor(self) -> Cursor:
        """A new cursor."""
        return Cursor(self._open())

    def commit(self) -> None:
        """Does nothing: every query reads a snapshot."""
        self._open()

    def rollback(self) -> None:
        """Does nothing: there is never an open transaction. Connection pools call this."""
        self._open()

    def close(self) -> None:
        """Close the connections."""
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
    """One query at a time; rows are read as they are fetched, in bounded memory. After a response
    broke off, every fetch raises the same error until the next ``execute``, so a partial result is
    never taken for complete."""

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
        """Run a query. Dates and times in the parameters are sent as ISO texts."""
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
        """PEP 249 has it for statements without rows; there are none here."""
        raise NotSupportedError("this driver only reads: execute one query at a time")

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None."""
        found = self.fetchmany(1)
        return found[0] if found else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, by default ``arraysize``."""
        return self._next(max(0, self.arraysize if size is None else size))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All remaining rows."""
        return self._next(None)

    def close(self) -> None:
        """End the query."""
        self._end()
        self._closed = True

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, as PEP 249 allows."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self, most: int | None) -> list[tuple[Any, ...]]:
        """At most ``most`` rows, or all; the only method that reads."""
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
            # Some rows are lost: the remaining ones are not the rest.
            self._break(OperationalError("the fetch was interrupted: execute the query again"))
            raise

    def _break(self, broken: Error) -> None:
        self._end()
        self._broken = broken

    def _check(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed: open another")

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
            f"Python cannot represent a value ({message}): cast the column to VARCHAR in the SQL"
        )
    if isinstance(error, Corrupt):
        return InternalError(message)
    if isinstance(error, Unavailable | NoMemory):
        return OperationalError(message)
    if isinstance(error, Invalid | NotFound | AccessDenied):
        return ProgrammingError(message)
    return DatabaseError(message)
