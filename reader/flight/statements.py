"""Statements over Flight SQL: described, run, prepared, bound, and those that change rows.

Rules:
- To ask for a query describes it and pins its versions; it runs when its ticket is taken.
- A statement takes one row of parameters. Many rows are an ingest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyarrow import flight

from blockstore.errors import Invalid
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.changes import Change, changed, is_query, rows_changed
from blockstore.reader.doors.queries import (
    Asked,
    Described,
    Stopper,
    begun,
    described,
    parameters_of,
)
from blockstore.reader.flight.calls import Call
from blockstore.reader.flight.handles import Done, Statement, Ticket, taken
from blockstore.reader.flight.messages import message, packed
from blockstore.reader.flight.streams import streamed
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.tokens import Scope
from blockstore.reader.jobs.store import Job
from blockstore.reader.query.sql.statement import check_length
from blockstore.reader.tables import At

_DIGITS = 15
_EMPTY = pa.schema([])
COUNT = pa.schema([("Count", pa.int64())])
"""What a statement that changes rows returns to a client that sends it as a query."""


def asked_of(call: Call, statement: Statement) -> Asked:
    """A query with the snapshot that the headers of its call name. Raises Invalid."""
    given = call.header("blockstore-version")
    if given is not None and not _is_number(given):
        raise Invalid(f"blockstore-version is {given[:40]!r}, expected the number of a version")
    at = At(
        version=None if given is None else int(given),
        as_of=_moment(call.header("blockstore-as-of")),
        tag=call.header("blockstore-tag"),
    )
    return Asked(sql=statement.sql, parameters=statement.parameters, at=at)


def _moment(given: str | None) -> object:
    return int(given) if given is not None and _is_number(given) else given


def _is_number(given: str) -> bool:
    return given.isascii() and given.isdigit() and len(given) <= _DIGITS


def info(
    gateway: Gateway, call: Call, statement: Statement, descriptor: flight.FlightDescriptor
) -> flight.FlightInfo:
    """The columns of a query, and the ticket of its rows. A statement that changes rows is carried
    out at once: a client that sends it as a query learns here that it failed, and need not take the
    ticket of the count."""
    call.statement.text = statement.sql
    if not is_query(gateway, statement.sql):
        done = Done(count=_changed(gateway, call, statement))
        return flight.FlightInfo(COUNT, descriptor, [_end(done.dump(), None)])
    check_length(statement.sql)
    if statement.parameters is None and (names := parameters_of(gateway, statement.sql)):
        raise Invalid(
            f"the statement has parameters ({', '.join(names[:5])}) and no values for them: "
            "prepare it and bind them"
        )
    asked = asked_of(call, statement)
    found = _described(gateway, call, asked)
    now_ms = gateway.world.clock.now_ms()
    until_ms = now_ms + round(gateway.settings.http.answer_s * 1000)
    known = set(gateway.tables.names(call.caller.tables))
    pinned = {
        name: version
        for name, version in found.versions.items()
        if version is not None and name in known
    }
    ticket = Ticket(sql=asked.sql, parameters=asked.parameters, versions=pinned, until_ms=until_ms)
    return flight.FlightInfo(found.schema, descriptor, [_end(ticket.dump(), until_ms)])


def _end(handle: bytes, until_ms: int | None) -> flight.FlightEndpoint:
    ticket = packed("TicketStatementQuery", statement_handle=handle)
    if until_ms is None:
        return flight.FlightEndpoint(ticket, [])
    until = pa.scalar(until_ms, pa.timestamp("ms", "UTC")).cast(pa.timestamp("ns", "UTC"))
    return flight.FlightEndpoint(ticket, [], until)


def schema(gateway: Gateway, call: Call, statement: Statement) -> pa.Schema:
    """The columns of a query, or of the count of a statement that changes rows."""
    call.statement.text = statement.sql
    if not is_query(gateway, statement.sql):
        return COUNT
    return _described(gateway, call, asked_of(call, statement)).schema


def rows(gateway: Gateway, call: Call, ticket: bytes) -> flight.FlightDataStream:
    """The rows of a ticket, while they are computed."""
    wanted = taken(ticket, gateway.world.clock.now_ms())
    if isinstance(wanted, Done):
        return flight.RecordBatchStream(pa.table([[wanted.count]], schema=COUNT))
    call.statement.text = wanted.sql
    call.statement.counts = True
    stopper = Stopper()
    call.watch_by(stopper.cancel)
    answer = begun(gateway, call.caller, wanted.asked, stopper)
    call.streams = True
    return flight.GeneratorStream(answer.schema, streamed(answer, call))


def prepared(gateway: Gateway, call: Call, sql: str) -> bytes:
    """The result of the action that prepares a statement. Raises BadSql for one that cannot be
    parsed, and for a query that cannot run."""
    call.statement.text = sql
    dataset = _EMPTY
    if is_query(gateway, sql):
        dataset = schema(gateway, call, Statement(sql=sql))
    else:
        check_scope(call.caller, Scope.READ)
    names = parameters_of(gateway, sql)
    values = pa.schema([pa.field(name, pa.null()) for name in names])
    return packed(
        "ActionCreatePreparedStatementResult",
        prepared_statement_handle=Statement(sql=sql).dump(),
        dataset_schema=_shown(dataset),
        parameter_schema=_shown(values),
    )


def bound(
    gateway: Gateway, statement: Statement, reader: flight.MetadataRecordBatchReader
) -> Statement:
    """The statement with the parameters that a client sends, one row. Raises Invalid."""
    found = _parameters(gateway, reader)
    if not found:
        return statement
    row = found[0]
    names = parameters_of(gateway, statement.sql)
    if all(name.isascii() and name.isdigit() for name in names):
        return replace(statement, parameters=list(row.values()))
    return replace(statement, parameters={name.lstrip("$:@"): one for name, one in row.items()})


def update(gateway: Gateway, call: Call, statement: Statement) -> bytes:
    """Carry out a statement that changes rows; the result of the call."""
    return updated(_changed(gateway, call, statement))


def _changed(gateway: Gateway, call: Call, statement: Statement) -> int | None:
    call.statement.text = statement.sql
    call.statement.counts = True
    change = Change(
        sql=statement.sql,
        parameters=statement.parameters,
        message=call.header("blockstore-message") or "",
        key=call.header("idempotency-key"),
    )
    wait_s = gateway.settings.jobs.time_limit_s
    job = changed(gateway, call.caller, change, wait_s=wait_s, gone=call.gone)
    check_ended(job)
    return rows_changed(job)


def check_ended(job: Job) -> None:
    """Raise Problem for a job that has not ended."""
    if not job.state.ended:
        raise Problem(504, f"job {job.id} has not ended yet: look at /v1/jobs/{job.id}")


def updated(count: int | None) -> bytes:
    """The result of a change."""
    known = -1 if count is None else count
    made: bytes = message("DoPutUpdateResult", record_count=known).SerializeToString()
    return made


def _described(gateway: Gateway, call: Call, asked: Asked) -> Described:
    stopper = Stopper()
    call.watch_by(stopper.cancel)
    return described(gateway, call.caller, asked, stopper)


def _shown(schema: pa.Schema) -> bytes:
    return schema.serialize().to_pybytes()


def _parameters(
    gateway: Gateway, reader: flight.MetadataRecordBatchReader
) -> Sequence[dict[str, object]]:
    """The rows of parameters; none, or one. Raises Invalid."""
    limit, size = gateway.settings.http.max_body_bytes, 0
    found: list[dict[str, object]] = []
    try:
        names = reader.schema.names
    except (pa.ArrowInvalid, flight.FlightError):
        return ()  # a statement without parameters sends no schema
    for chunk in _chunks(reader):
        batch = chunk.data
        size += 0 if batch is None else batch.nbytes
        if size > limit:
            raise Invalid(
                f"the parameters have more than the limit of {limit:,} bytes: load rows by ingest"
            )
        if batch is None or not batch.num_rows:
            continue
        if found or batch.num_rows > 1:
            raise Invalid(
                "a statement takes one row of parameters: run it once for each, or load rows by "
                "ingest, which is one version"
            )
        # Positional parameters may all have the same name.
        columns = [column[0].as_py() for column in batch.columns]
        if len(set(names)) < len(names):
            names = [str(place) for place in range(1, len(names) + 1)]
        found.append(dict(zip(names, columns, strict=True)))
    return found


def _chunks(reader: flight.MetadataRecordBatchReader) -> Iterator[flight.FlightStreamChunk]:
    try:
        yield from reader
    except (pa.ArrowException, OSError) as error:
        raise unreadable(error) from error


def unreadable(error: Exception) -> Invalid:
    """The error of a stream that is none."""
    return Invalid(f"the rows that were sent cannot be read ({' '.join(str(error).split())[:200]})")
