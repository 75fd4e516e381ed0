"""Errors in the form of Iceberg's specification:
``{"error": {"message", "type", "code"}}``."""

from __future__ import annotations

import orjson
from starlette.requests import Request
from starlette.responses import Response

from blockstore.errors import NotFound
from blockstore.reader.http.problems import of_error
from blockstore.reader.iceberg.catalog import UnknownNamespace

_TYPES = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    406: "UnsupportedOperationException",
    409: "CommitFailedException",
    429: "TooManyRequestsException",
    503: "ServiceUnavailableException",
}


def answer(request: Request, error: Exception) -> Response:
    """The response to a request that ended in ``error``."""
    problem = of_error(error)
    match error:
        case UnknownNamespace():
            kind = "NoSuchNamespaceException"
        case NotFound():
            kind = "NoSuchTableException"
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
