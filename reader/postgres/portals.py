"""What a statement returns to its client, piece by piece: rows, rows of a COPY, or only its end.

Rule: a portal takes from its rows only what was asked for; the others wait in the engine.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from blockstore.reader.audit import Outcome, Statement
from blockstore.reader.doors.submitted import Submitted
from blockstore.reader.jobs.store import Job
from blockstore.reader.postgres import wire
from blockstore.reader.postgres.prepared import Prepared
from blockstore.reader.postgres.rows import CopyForm, Form, as_rows, pieces
from blockstore.reader.postgres.states import FEATURE, Refused
from blockstore.reader.postgres.text import text_of
from blockstore.reader.postgres.types import columns_of, oid_of, type_of
from blockstore.reader.postgres.wire import Column

_ROWS = 8_192
_CHANGED = (
    "cached plan must not change result type: the columns of this statement have changed since it "
    "was prepared; prepare it again"
)
"""It begins as PostgreSQL's sentence does, by which clients know it."""


@dataclass(kw_only=True)
class CopyIn:
    """A COPY that reads what the client sends."""

    table: str
    columns: tuple[str, ...]
    begins: bytes
    form: CopyForm


@dataclass(kw_only=True)
class CopyOut:
    """A COPY that sends rows."""

    begins: bytes
    form: Form
    form_name: str = "text"
    head: bytes = b""
    end: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """A statement that has become a job, and the tag that it has once that has ended."""

    sent: Submitted
    tag: Callable[[Job], str]


@dataclass(kw_only=True)
class Portal:
    """A statement with its values, and what is left of its rows."""

    prepared: Prepared
    values: tuple[object, ...]
    formats: Sequence[int]
    """The formats of the columns, as the client gave them."""
    iso: bool = False
    """Whether intervals are written as ISO 8601 has them."""
    started: bool = False
    schema: pa.Schema | None = None
    columns: list[Column] | None = None
    copy: CopyIn | CopyOut | None = None
    tag: str = ""
    notice: Sequence[tuple[str, str]] = ()
    suspended: bool = False
    waits: Waits | None = None
    """What it waits for before it has an end."""
    statement: Statement | None = None
    """What the audit log will have of it, once it was begun."""
    _counts: str = ""
    _batches: Iterator[pa.RecordBatch] | None = None
    _closes: Callable[[], None] | None = None
    _left: pa.RecordBatch | None = None
    _sent: int = 0
    _ends: list[bytes] = field(default_factory=list)

    @property
    def forms(self) -> list[int]:
        """The format of each column: text (0) or binary (1)."""
        count = len(self.columns or ())
        if len(self.formats) == count:
            return list(self.formats)
        return [*(self.formats or (0,))][:1] * count

    def returns(
        self,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        counts: str = "SELECT",
        closes: Callable[[], None] | None = None,
        *,
        oids: bool = False,
    ) -> None:
        """It returns rows; ``counts`` begins its tag, ``closes`` releases them. ``oids``: unsigned
        numbers are those of a catalog."""
        self.started = True
        try:
            self.check(schema)
        except Refused:
            closes = closes or _nothing
            closes()
            raise
        known = self._described
        self.columns = columns_of(schema, oids=oids) if known is None else known
        self.schema = schema
        self._batches, self._counts, self._closes = batches, counts, closes

    def check(self, schema: pa.Schema) -> None:
        """Raise Refused for columns that are not those that the client was shown. A type may be
        another one: values are sent under the one that was shown."""
        known = self._described
        if known is None:
            return
        names = [one.name for one in known]
        if len(names) != len(schema) or not all(map(_is_shown, names, schema.names)):
            raise Refused(FEATURE, _CHANGED)

    @property
    def _described(self) -> list[Column] | None:
        """The columns that the client was shown."""
        return self.prepared.columns if self.prepared.described else None

    def copies(self, out: CopyOut) -> None:
        """Its rows are those of a COPY."""
        self.copy = out
        self._ends = [one for one in (out.end and _copy_data(out.end), wire.COPIED) if one]
        self._counts = "COPY"
        self.columns = None

    def ends(self, tag: str) -> None:
        """It returns no rows, and has ended with this tag."""
        self.started = True
        self.tag = tag

    def finish(self, rows: int) -> None:
        """A COPY has read so many rows."""
        self.tag = f"COPY {rows}"

    def take(self, limit: int) -> bytes | None:
        """The next piece; None at the end. With a ``limit`` at most so many rows, and the portal is
        then ``suspended``."""
        self.suspended = False
        head = b""
        if isinstance(self.copy, CopyOut):
            head, self.copy.head = self.copy.head, b""
            if head and self.copy.form_name != "binary":
                return _copy_data(head)
        limit = 0 if self.copy is not None else limit
        batch = self._next(limit - self._sent if limit else _ROWS)
        if batch is not None:
            self._sent += batch.num_rows
            if self.statement is not None:
                self.statement.gives(rows=batch.num_rows)
            self.suspended = self._sent == limit
            data = b"".join(pieces(self._as_described(batch), self._form()))
            self._sent = 0 if self.suspended else self._sent
            return _with_head(data, head)
        if head:
            self._ends[0] = _with_head(self._ends[0], head)
        if self._ends:
            return self._ends.pop(0)
        if self._counts:
            # Drivers look for these two as they are.
            counted = self._counts not in ("SHOW", "EXPLAIN")
            self.tag = f"{self._counts} {self._sent}" if counted else self._counts
        return None

    def close(self) -> None:
        """Release what it holds."""
        closes, self._closes, self._batches, self._left = self._closes, None, None, None
        try:
            if closes is not None:
                closes()
        finally:
            if self.statement is None:
                pass
            elif self.suspended:
                self.statement.end(Outcome.OK)
            else:
                self.statement.end(Outcome.CANCELLED, "the rows were not taken to their end")

    def rows(self, limit: int) -> Iterator[pa.RecordBatch]:
        """Its next rows as they are, at most ``limit``; 0 for all. For FETCH."""
        rows = 0
        while not limit or rows < limit:
            batch = self._next(limit - rows if limit else _ROWS)
            if batch is None:
                return
            rows += batch.num_rows
            yield batch

    def _next(self, most: int) -> pa.RecordBatch | None:
        """Some of the next rows: at most ``most``, and not more than a piece has."""
        most = min(most, _ROWS)
        batch, self._left = self._left, None
        while batch is None or batch.num_rows == 0:
            batch = next(self._batches, None) if self._batches is not None else None
            if batch is None:
                return None
        if batch.num_rows > most:
            self._left = batch.slice(most)
            batch = batch.slice(0, most)
        return batch

    def _form(self) -> Form:
        return self.copy.form if isinstance(self.copy, CopyOut) else self._rows_form()

    def _rows_form(self) -> Form:
        return as_rows(self.forms, [one.type for one in self.columns or ()], iso=self.iso)

    def _as_described(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the types that the client was shown."""
        if self.copy is not None or self.columns is None:
            return batch
        columns = [
            one if column.type in (type_of(one.type), oid_of(one.type)) else _cast(one, column)
            for one, column in zip(batch.columns, self.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, [one.name for one in self.columns])


def _is_shown(shown: str, name: str) -> bool:
    """Whether a column was shown by this name; the second of a name was shown with a number."""
    return shown == name or re.fullmatch(re.escape(name) + r"_\d+", shown) is not None


def _cast(values: pa.Array, column: Column) -> pa.Array:
    kind = _ARROW.get(column.type)
    if kind is None:
        return text_of(values)
    try:
        return values.cast(kind)
    except pa.ArrowException as error:
        raise Refused(FEATURE, _CHANGED) from error


def _nothing() -> None:
    pass


def _with_head(data: bytes, head: bytes) -> bytes:
    """Messages of a COPY whose first one begins with ``head``, as PostgreSQL sends them."""
    if not head:
        return data
    (length,) = struct.unpack_from("!i", data, 1)
    return data[:1] + struct.pack("!i", length + len(head)) + head + data[5:]


def _copy_data(data: bytes) -> bytes:
    return wire.framed(b"d", data)


_ARROW = {
    16: pa.bool_(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    26: pa.uint32(),
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
}
"""The Arrow types of results that are cast to what a client was shown."""
