"""Bulk ingest: the rows of a stream into one table, as one version.

Rules:
- The options of the command say what happens with a table that is missing or there: append, create,
  replace. ``blockstore-ingest: upsert``, as a header of the call or as an option of the command,
  makes each row the current one of its key.
- The rows of a client that goes away before it has sent all are not written.
- A replaced table keeps its columns and its history: the rows come in the place of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import flight

from blockstore.errors import Invalid
from blockstore.reader.doors.loading import Load, load
from blockstore.reader.flight.calls import Call
from blockstore.reader.flight.failures import Unimplemented
from blockstore.reader.flight.statements import check_ended, unreadable, updated
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.jobs.arrow_file import Mode

OPTION = "blockstore-ingest"
_CREATE = 1
"""Of a table that is missing."""
_FAIL, _REPLACE = 1, 3
"""Of a table that is there."""


def ingest(
    gateway: Gateway, call: Call, command: Any, reader: flight.MetadataRecordBatchReader
) -> bytes:
    """Carry out a ``CommandStatementIngest``; the result of the call. Raises Invalid, UnknownTable
    and Problem; then nothing was changed."""
    if command.temporary:
        raise Unimplemented("there are no temporary tables: ingest into a table of the lake")
    if not command.table:
        raise Invalid("an ingest names no table")
    for part in ("catalog", "schema"):
        if command.HasField(part) and getattr(command, part):
            raise Invalid(f"an ingest names a {part}: tables are named without a {part}")
    try:
        schema = reader.schema
    except (pa.ArrowInvalid, flight.FlightError):
        raise Invalid("an ingest sends no columns") from None
    definition = command.table_definition_options
    wanted = Load(
        table=command.table,
        mode=_mode(call, command),
        creates=definition.if_not_exist == _CREATE,
        fails_if_exists=definition.if_exists == _FAIL,
        message=call.header("blockstore-message") or "",
        key=call.header("idempotency-key"),
    )
    call.statement.text = f"INGEST INTO {wanted.table} ({wanted.mode})"
    call.statement.counts = True
    rows = _Rows(call, reader)
    job = load(
        gateway,
        call.caller,
        wanted,
        schema,
        rows,
        wait_s=gateway.settings.jobs.time_limit_s,
        gone=call.gone,
        receives=call.watch_by,
    )
    check_ended(job)
    return updated(rows.count)


def _mode(call: Call, command: Any) -> Mode:
    options = {one.key: one.value for one in command.options}
    given = call.header(OPTION) or options.get(OPTION)
    if given not in (None, Mode.APPEND, Mode.UPSERT):
        raise Invalid(f"{OPTION} is {given[:40]!r}, expected append or upsert")
    replaces = command.table_definition_options.if_exists == _REPLACE
    if given is None:
        return Mode.REPLACE if replaces else Mode.APPEND
    if replaces:
        raise Invalid(f"the table is replaced, and {OPTION} is {given}: leave one of them out")
    return Mode(given)


class _Rows:
    """The rows as they arrive, once; a client that sends nothing for long is given up."""

    def __init__(self, call: Call, reader: flight.MetadataRecordBatchReader) -> None:
        self._call = call
        self._reader = reader
        self.count = 0
        """How many have arrived."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while True:
            self._call.waits()
            try:
                chunk = self._reader.read_chunk()
            except StopIteration:
                self._call.check_complete()
                return
            except (pa.ArrowException, OSError) as error:
                self._call.goes_on()
                raise unreadable(error) from error
            self._call.goes_on()
            if chunk.data is not None:
                self.count += chunk.data.num_rows
                yield chunk.data
