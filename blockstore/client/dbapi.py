"""A DB-API 2.0 driver (PEP 249) for a gateway. Parameters are ``?``.

from blockstore.client import dbapi
with dbapi.connect("http://127.0.0.1:8080") as connection:
    cursor = connection.cursor()
    cursor.execute("select * from flights where origin = ?", ["JFK"])
    cursor.fetchall()

Rules:
- Each statement that changes something is one version, or nothing, and is complete when ``execute``
  returns. So is ``executemany``, and a text from BEGIN to COMMIT.
- ``rollback`` cannot undo a change: it raises NotSupportedError if there was one since the last
  ``commit``, unless the connection was opened with ``autocommit``.
- A query of a connection reads what this connection has changed, whichever gateway responds.
"""

from __future__ import annotations

import builtins
import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any
from weakref import WeakSet

import pyarrow as pa

from blockstore.client.client import Client
from blockstore.client.many import carry_out
from blockstore.client.rows import Rows
from blockstore.client.wire import BadRow, NotAQuery
from blockstore.errors import (
    AccessDenied,
    BlockstoreError,
    Conflict,
    Corrupt,
    Invalid,
    NoMemory,
    NotFound,
    RowConflict,
    Unavailable,
)

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"


_COUNTS = ("inserted", "updated", "deleted", "unchanged")
_CHANGE = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:INSERT|UPDATE|DELETE|MERGE|TRUNCATE|BEGIN|START|CREATE|ALTER"
    r"|DROP|COMMENT)\b",
    re.IGNORECASE | re.DOTALL,
)
"""How most changes begin. What begins with another word, such as WITH, is sent as a query first,
and the gateway says if it is none."""


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
    """The gateway did not respond or was busy, a query exceeded a limit, or others changed the same
    rows."""


class IntegrityError(DatabaseError):
    """A row breaks a rule of its table, or its key exists."""


class InternalError(DatabaseError):
    """Stored bytes violate the format."""


class ProgrammingError(DatabaseError):
    """The SQL is invalid or names an unknown table, or the token may not."""


class NotSupportedError(DatabaseError):
    """A rollback of what is complete already."""


class _Kind:
    """A type object of PEP 249: equal to the types of Arrow that ``description`` has."""

    def __init__(self, *holds: Callable[[pa.DataType], bool]) -> None:
        self._holds = holds

    def __eq__(self, other: object) -> bool:
        if isinstance(other, pa.DataType):
            return any(holds(other) for holds in self._holds)
        return self is other

    def __hash__(self) -> int:
        return id(self)


STRING = _Kind(pa.types.is_string, pa.types.is_large_string)
BINARY = _Kind(pa.types.is_binary, pa.types.is_large_binary)
NUMBER = _Kind(pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
DATETIME = _Kind(pa.types.is_temporal)
ROWID = _Kind()
Binary, Date, Time, Timestamp = bytes, dt.date, dt.time, dt.datetime
DateFromTicks = dt.date.fromtimestamp
TimestampFromTicks = dt.datetime.fromtimestamp


def TimeFromTicks(ticks: float) -> dt.time:  # noqa: N802 - the name that PEP 249 gives
    """The local time of a moment."""
    return TimestampFromTicks(ticks).time()


def connect(
    url: str, token: str | None = None, *, autocommit: bool = False, **more: Any
) -> Connection:
    """A connection; ``more`` are arguments of ``Client``."""
    return Connection(Client(url, token, **more), autocommit=autocommit)


class Connection:
    """A client, and what its cursors have changed."""

    def __init__(self, client: Client, *, autocommit: bool = False) -> None:
        self._client: Client | None = client
        self.autocommit = autocommit
        """Whether ``rollback`` does nothing, also after changes."""
        self._changes = 0
        self._versions: dict[str, int] = {}
        self._cursors: WeakSet[Cursor] = WeakSet()

    @property
    def client(self) -> Client:
        """The client, for what PEP 249 has no call for."""
        if self._client is None:
            raise InterfaceError("the connection is closed: connect again")
        return self._client

    def cursor(self) -> Cursor:
        """A new cursor."""
        self.client  # noqa: B018 - raises if the connection is closed
        made = Cursor(self)
        self._cursors.add(made)
        return made

    def commit(self) -> None:
        """Accept the changes since the last call: each was complete at once."""
        self.client  # noqa: B018 - raises if the connection is closed
        self._changes = 0

    def rollback(self) -> None:
        """End the queries whose rows were not all read. Raise NotSupportedError if something was
        changed since the last commit; connection pools expect that it can be called else."""
        self.client  # noqa: B018 - raises if the connection is closed
        self._end_queries()
        changes, self._changes = self._changes, 0
        if changes and not self.autocommit:
            raise NotSupportedError(
                f"rollback cannot undo {changes} change{'s' * (changes > 1)} since the last "
                "commit: each was a version of its own and is complete. Send statements from BEGIN "
                "to COMMIT in one text, or connect with autocommit"
            )

    def close(self) -> None:
        """End the queries whose rows were not all read, and close the connections."""
        self._end_queries()
        if self._client is not None:
            self._client.close()
        self._client = None

    def _end_queries(self) -> None:
        for cursor in list(self._cursors):
            cursor.interrupt()

    def changed(self, written: Mapping[str, Any]) -> None:
        """Remember a change: later queries read it."""
        self._changes += 1
        if written.get("table") and written.get("version"):
            self._versions[written["table"]] = written["version"]

    def read(self, sql: str, parameters: Any, stack: ExitStack) -> pa.RecordBatchReader:
        """Begin a query, which ends with ``stack``."""

        def begun(versions: Mapping[str, int]) -> pa.RecordBatchReader:
            rows: Rows = self.client.sql(sql, parameters, min_version=dict(versions) or None)
            return stack.enter_context(rows.stream())

        try:
            return begun(self._versions)
        except NotFound:
            if not self._versions:
                raise
        # Perhaps a table that was changed here has been dropped since.
        self._versions.clear()
        return begun({})

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Cursor:
    """One statement at a time; rows are read as they are fetched, in bounded memory. After a
    response broke off, every fetch raises the same error until the next ``execute``, so a partial
    result is never taken for complete."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._stack = ExitStack()
        self._rows: Iterator[tuple[Any, ...]] | None = None
        self.reader: pa.RecordBatchReader | None = None
        """The rows as Arrow, in the place of the fetches; None after a change."""
        self._broken: Error | None = None
        self._closed = False
        self.arraysize = 1
        self.description: list[tuple[str, Any, None, None, None, None, bool]] | None = None
        self.rowcount = -1

    def execute(self, operation: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Cursor:
        """Run a query, or carry out a change: ``rowcount`` is then the number of its rows, among
        them those that it left as they were."""
        self._check()
        self._end()
        self.rowcount = -1
        try:
            if not _CHANGE.match(operation):
                try:
                    self._reads(operation, parameters)
                    return self
                except NotAQuery:
                    pass
            self._did(self.connection.client.execute(operation, parameters or None))
        except BlockstoreError as error:
            raise _of(error) from error
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Sequence[Any]]) -> Cursor:
        """Carry out a change with each of the rows of parameters; all of it is one version, or
        nothing. An INSERT of nothing but ``?`` may have any number of rows."""
        self._check()
        self._end()
        rows = list(seq_of_parameters)
        if any(isinstance(row, Mapping) for row in rows):
            raise ProgrammingError("executemany takes rows of values for ?, found a mapping")
        try:
            if rows:
                self._did(carry_out(self.connection.client, operation, rows))
            else:
                self.rowcount = 0
        except BlockstoreError as error:
            raise _of(error) from error
        return self

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
            raise InterfaceError("there are no rows: execute a query first")
        try:
            found = list(islice(self._rows, most))
            if most is None or len(found) < most:
                self._rows = iter(())  # all rows were read
            return found
        except Exception as error:
            broken = _of(error)
            self._break(broken)
            raise broken from error
        except BaseException:
            # Some rows are lost: the remaining ones are not the rest.
            self._break(OperationalError("the fetch was interrupted: execute the query again"))
            raise

    def _reads(self, operation: str, parameters: Sequence[Any] | Mapping[str, Any]) -> None:
        self.reader = reader = self.connection.read(operation, parameters, self._stack)
        self.description = [
            (one.name, one.type, None, None, None, None, one.nullable) for one in reader.schema
        ]
        self._rows = _tuples(reader)

    def _did(self, written: Mapping[str, Any]) -> None:
        self.connection.changed(written)
        counts = [written[name] for name in _COUNTS if written.get(name) is not None]
        self.rowcount = sum(counts) if counts else -1

    def interrupt(self) -> None:
        """End a query whose rows were not all read; every fetch raises from now on."""
        if self._rows is not None:
            self._break(InterfaceError("the query was ended: execute it again"))

    def _break(self, broken: Error) -> None:
        self._end()
        self._broken = broken

    def _check(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed: open another")

    def _end(self) -> None:
        self._stack.close()
        self._rows, self._broken, self.description, self.reader = None, None, None, None


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
    if isinstance(error, RowConflict | BadRow):
        return IntegrityError(message)
    if isinstance(error, Unavailable | NoMemory | Conflict):
        return OperationalError(message)
    if isinstance(error, Invalid | NotFound | AccessDenied):
        return ProgrammingError(message)
    return DatabaseError(message)
