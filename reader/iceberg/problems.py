"""Errors in the form of Iceberg's specification:
``{"error": {"message", "type", "code"}}``."""

from __future__ import annotations

import orjson
from starlette.requests import Request
from starlette.responses import Response

from blockstore.errors import Indeterminate, NotFound
from blockstore.reader.http.problems import Problem, audited, of_error
from blockstore.reader.iceberg.catalog import AlreadyThere, UnknownNamespace

_TYPES = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    406: "UnsupportedOperationException",
    409: "CommitFailedException",
    429: "TooManyRequestsException",
    503: "ServiceUnavailableException",
    504: "CommitStateUnknownException",
}


def problem_of(error: Exception) -> Problem:
    """How a request that ended in ``error`` is answered."""
    problem = of_error(error)
    if isinstance(error, Indeterminate):
        # After a conflict or a failure a client removes its files, which may be in use.
        return Problem(504, f"{problem.detail}; the same commit can be sent again")
    return problem


async def answer(request: Request, error: Exception) -> Response:
    """The response to a request that ended in ``error``."""
    problem = problem_of(error)
    audited(request, error, problem)
    match error:
        case UnknownNamespace():
            kind = "NoSuchNamespaceException"
        case NotFound():
            kind = "NoSuchTableException"
        case AlreadyThere():
            kind = "AlreadyExistsException"
        case _ if problem.status_code in _TYPES:
            kind = _TYPES[problem.status_code]
        case _:
            kind = "RESTException" if problem.status_code < 500 else "InternalServerError"
    body = {"message": str(problem.detail), "type": kind, "code": problem.status_code}
    return Response(
        orjson.dumps({"error": body}),
        status_code=problem.status_code,
        headers=dict(problem.headers or {}),
        media_type="application/json",
    )
