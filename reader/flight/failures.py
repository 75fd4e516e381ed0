"""Every error as an error of Flight: the gateway's sentence, under the status that fits it.

pyarrow has classes for some statuses. For the others it takes an exception of Arrow, and adds the
exception's traceback to the message that the client gets. What it adds is made by Python's
``traceback``, which reads ``__cause__``: the exceptions here have none to read, so that the client
gets the name of the class alone.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import flight

from blockstore.reader.audit import Outcome, Statement, outcome_of
from blockstore.reader.errors import Canceled
from blockstore.reader.http.problems import of_error


class _Bare:
    """An exception without a traceback for others."""

    @property
    def __cause__(self) -> None:
        raise RuntimeError("a client gets the sentence alone")


class InvalidArgument(_Bare, pa.ArrowInvalid):
    """What the client sent cannot be carried out: INVALID_ARGUMENT."""


class Missing(_Bare, pa.ArrowKeyError):
    """There is no such table, version or tag: NOT_FOUND."""

    def __str__(self) -> str:
        return str(self.args[0])


class Unimplemented(_Bare, pa.ArrowNotImplementedError):
    """Flight SQL has it and this gateway does not: UNIMPLEMENTED."""


class Full(flight.FlightUnavailableError):
    """A limit is reached: UNAVAILABLE, which clients know to retry."""


class Closing(flight.FlightUnavailableError):
    """The gateway stops: UNAVAILABLE."""


class Stalled(flight.FlightTimedOutError):
    """The client did nothing for too long: DEADLINE_EXCEEDED."""


_BY_STATUS: dict[int, type[Exception]] = {
    401: flight.FlightUnauthenticatedError,
    403: flight.FlightUnauthorizedError,
    404: Missing,
    408: flight.FlightTimedOutError,
    409: flight.FlightServerError,
    410: Missing,
    429: Full,
    500: flight.FlightInternalError,
    501: Unimplemented,
    503: flight.FlightUnavailableError,
    504: flight.FlightTimedOutError,
}


_REFUSED = (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError, Full)
_LEFT = (flight.FlightCancelledError, Closing, Stalled)


def raised(error: BaseException) -> Exception:
    """The error that the handler of a call raises for an error. One of Flight stays as it is; one
    that is none of the project's is logged, and the client gets no more than that there was
    one."""
    if isinstance(error, (flight.FlightError, _Bare)):
        return error
    if isinstance(error, Canceled):
        return flight.FlightCancelledError(str(error))
    problem = of_error(error)
    sentence = str(problem.detail)
    if problem.error == "internal":
        sentence = "internal error: the gateway's log has it"
    return _BY_STATUS.get(problem.status_code, InvalidArgument)(sentence)


def audit_failure(statement: Statement, error: BaseException) -> None:
    """End the statement of a call that failed with an error of Flight."""
    statement.counts = statement.token is not None
    if isinstance(error, _REFUSED):
        statement.end(Outcome.REFUSED, str(error))
    elif isinstance(error, _LEFT):
        statement.end(Outcome.CANCELLED, str(error))
    else:
        statement.end(outcome_of(error), str(error))


def status_of(error: BaseException | None) -> str:
    """A word for logs and metrics: how a call ended."""
    if error is None:
        return "ok"
    if isinstance(error, flight.FlightCancelledError):
        return "cancelled"
    fault = (flight.FlightInternalError, flight.FlightUnavailableError, flight.FlightTimedOutError)
    return "failed" if isinstance(error, fault) else "refused"
