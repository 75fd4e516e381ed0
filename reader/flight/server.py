"""The gateway's Arrow Flight SQL door: each call of the protocol to what carries it out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError
from pyarrow import flight

from blockstore.errors import Invalid
from blockstore.reader.flight import statements
from blockstore.reader.flight.calls import NAME, Call, Calls, call_of
from blockstore.reader.flight.catalog import rows_of, schema_of
from blockstore.reader.flight.failures import Unimplemented, audit_failure, raised
from blockstore.reader.flight.handles import Statement
from blockstore.reader.flight.ingest import ingest
from blockstore.reader.flight.messages import message, unpacked
from blockstore.reader.http.gateway import Gateway

T = TypeVar("T")

_ACTIONS = {
    "CreatePreparedStatement": "Prepare a statement: its columns and its parameters.",
    "ClosePreparedStatement": "Close a prepared statement; the gateway keeps none.",
    "CancelFlightInfo": "Cancel the query whose ticket is being taken.",
}
_CANCELLED, _NOT_CANCELLABLE = 1, 3


def _refusing(handler: Callable[..., T]) -> Callable[..., T]:
    """A handler whose errors are those of Flight, and whose call is watched."""

    @wraps(handler)
    def handled(self: FlightSql, context: flight.ServerCallContext, *given: Any) -> T:
        call = call_of(context)
        call.enter(context)
        try:
            with call.statement.current():
                done = handler(self, call, *given)
        except Exception as error:  # noqa: BLE001 - the client gets it
            call.failure = raised(call.reason or error)
            audit_failure(call.statement, call.failure)
            raise call.failure from None
        if not call.streams:
            call.statement.end()
        return done

    return handled


class FlightSql(flight.FlightServerBase):
    """The server; it serves from the moment that it is made. Each call has a thread of gRPC's."""

    def __init__(
        self,
        gateway: Gateway,
        calls: Calls,
        location: str,
        certificates: list[tuple[bytes, bytes]] | None,
    ) -> None:
        self._gateway = gateway
        self._calls = calls
        super().__init__(
            location,
            auth_handler=_ByHeader(),
            tls_certificates=certificates,
            middleware={NAME: calls},
        )

    @_refusing
    def get_flight_info(self, call: Call, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        name, command = _command(descriptor)
        statement = _query(name, command)
        if statement is not None:
            return statements.info(self._gateway, call, statement, descriptor)
        schema = schema_of(name, command)
        if schema is None:
            raise Invalid(f"{name} has no rows: send it by DoPut")
        end = flight.FlightEndpoint(descriptor.command, [])
        return flight.FlightInfo(schema, descriptor, [end])

    @_refusing
    def get_schema(self, call: Call, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        name, command = _command(descriptor)
        statement = _query(name, command)
        if statement is not None:
            return flight.SchemaResult(statements.schema(self._gateway, call, statement))
        schema = schema_of(name, command)
        if schema is None:
            raise Invalid(f"{name} has no rows, so it has no columns")
        return flight.SchemaResult(schema)

    @_refusing
    def do_get(self, call: Call, ticket: flight.Ticket) -> flight.FlightDataStream:
        call.ticket = ticket.ticket
        name, command = unpacked(ticket.ticket)
        if name == "TicketStatementQuery":
            return statements.rows(self._gateway, call, command.statement_handle)
        if schema_of(name, command) is None:
            raise Invalid(f"{name} is not a ticket: ask for one by GetFlightInfo")
        return flight.RecordBatchStream(rows_of(self._gateway, call.caller, name, command))

    @_refusing
    def do_put(
        self,
        call: Call,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        name, command = _command(descriptor)
        gateway = self._gateway
        match name:
            case "CommandStatementUpdate":
                _check_alone(command)
                done = statements.update(gateway, call, Statement(sql=command.query))
            case "CommandPreparedStatementUpdate":
                statement = Statement.load(command.prepared_statement_handle)
                done = statements.update(
                    gateway, call, statements.bound(gateway, statement, reader)
                )
            case "CommandPreparedStatementQuery":
                statement = Statement.load(command.prepared_statement_handle)
                handle = statements.bound(gateway, statement, reader).dump()
                done = message(
                    "DoPutPreparedStatementResult", prepared_statement_handle=handle
                ).SerializeToString()
            case "CommandStatementIngest":
                _check_alone(command)
                done = ingest(gateway, call, command, reader)
            case _:
                raise Invalid(f"{name} changes nothing: ask for its rows by GetFlightInfo")
        call.statement.end()
        try:
            writer.write(done)
        except (pa.ArrowException, OSError):
            raise flight.FlightCancelledError("the client is gone") from None

    @_refusing
    def do_action(self, call: Call, action: flight.Action) -> Iterator[flight.Result]:
        body = action.body.to_pybytes()
        match action.type:
            case "CreatePreparedStatement":
                request = _expected(body, "ActionCreatePreparedStatementRequest")
                _check_alone(request)
                return iter(
                    [flight.Result(statements.prepared(self._gateway, call, request.query))]
                )
            case "ClosePreparedStatement":
                _expected(body, "ActionClosePreparedStatementRequest")
                return iter([])
            case "CancelFlightInfo":
                return iter([flight.Result(self._cancel(call, body))])
        raise Unimplemented(
            f"there is no action {action.type[:100]!r}: this gateway has {', '.join(_ACTIONS)}"
        )

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        return list(_ACTIONS.items())

    @_refusing
    def list_flights(self, call: Call, criteria: bytes) -> Iterator[flight.FlightInfo]:
        raise Unimplemented("there is no list of flights: list the tables with GetTables")

    @_refusing
    def do_exchange(self, call: Call, descriptor: Any, reader: Any, writer: Any) -> None:
        raise Unimplemented("there is no exchange: query with DoGet, and load rows with DoPut")

    def _cancel(self, call: Call, body: bytes) -> bytes:
        try:
            given = message("CancelFlightInfoRequest").FromString(body)
            info = flight.FlightInfo.deserialize(given.info)
            tickets = [end.ticket.ticket for end in info.endpoints]
        except (DecodeError, pa.ArrowException, flight.FlightError):
            raise Invalid("the request to cancel has no FlightInfo of this gateway") from None
        found = [self._calls.cancel(call.caller, ticket) for ticket in tickets]
        status = _CANCELLED if any(found) else _NOT_CANCELLABLE
        made: bytes = message("CancelFlightInfoResult", status=status).SerializeToString()
        return made


class _ByHeader(flight.ServerAuthHandler):
    """The handshake is answered; ``Calls`` reads the token of every call from its headers."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        return None

    def is_valid(self, token: bytes) -> bytes:
        return b""


def _command(descriptor: flight.FlightDescriptor) -> tuple[str, Any]:
    if descriptor.descriptor_type != flight.DescriptorType.CMD:
        raise Invalid("the descriptor is a path, expected a command of Flight SQL")
    return unpacked(descriptor.command)


def _query(name: str, command: Any) -> Statement | None:
    """The statement of a command that has rows of tables; None for another command."""
    if name == "CommandStatementQuery":
        _check_alone(command)
        return Statement(sql=command.query)
    if name == "CommandPreparedStatementQuery":
        return Statement.load(command.prepared_statement_handle)
    return None


def _expected(body: bytes, wanted: str) -> Any:
    name, found = unpacked(body)
    if name != wanted:
        raise Invalid(f"the body of the action is {name}, expected {wanted}")
    return found


def _check_alone(command: Any) -> None:
    if command.HasField("transaction_id"):
        raise Unimplemented(
            "there are no transactions over several calls: send the statements from BEGIN to "
            "COMMIT as one"
        )
