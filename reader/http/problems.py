"""Every error as one JSON shape, and its HTTP status.

    {"error": kind, "message": sentence, "position": {"line", "column"} | null, "nearest": [names],
     "detail": {…} | null, "request_id": id}

Rules: the message of a project error is passed on. Any other error is ``internal``: it is logged
with its traceback, and the response contains nothing but the request id. 429 and 503 carry
Retry-After.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from blockstore.errors import (
    AccessDenied,
    BlockstoreError,
    Conflict,
    Indeterminate,
    Invalid,
    NoMemory,
    NotFound,
    Unavailable,
    VersionExpired,
)
from blockstore.reader.errors import (
    BadSql,
    Busy,
    Canceled,
    NotAQuery,
    Restricted,
    Stale,
    TimedOut,
    TooMuch,
    UnknownTable,
)

_logger = logging.getLogger(__name__)

STATEMENT = "statement"
"""Where the scope of a request has what the audit log will have of it."""
STILL = "still"
"""Where the scope of a request has what refuses its caller if the token ceased to count."""
_RETRY_S = 5
_KINDS = {
    400: "invalid",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    422: "no_memory",
    429: "busy",
    499: "cancelled",
    503: "unavailable",
    505: "http_version",
}
_NOT_SENT_AS_JSON = "the body is not JSON: send it with the header Content-Type: application/json"

_PLACES = {"body": "key", "query": "parameter", "path": "part", "header": "header"}


class Problem(HTTPException):
    """An error as the client receives it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        error: str | None = None,
        position: Mapping[str, int | None] | None = None,
        nearest: Sequence[str] = (),
        detail: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.error = error or _KINDS.get(status, "internal")
        self.position = position
        self.nearest = tuple(nearest)
        self.facts = detail


class Refusal(Problem):
    """A caller who does not come in; ``token`` is the name of the token, if it is known."""

    def __init__(self, message: str, *, token: str | None = None) -> None:
        super().__init__(401, message, headers={"WWW-Authenticate": "Bearer"})
        self.token = token


class UnknownToken(Refusal):
    """No token, or one that nothing is known of."""


def of_error(error: BaseException) -> Problem:
    """The problem that a client receives for an error."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        return _of_validation(error)
    if isinstance(error, HTTPException):
        return Problem(error.status_code, str(error.detail), headers=error.headers)
    if isinstance(error, BlockstoreError):
        return _of_ours(error)
    _logger.error("a request failed with an internal error", exc_info=error)
    return Problem(500, "internal error: report the request id to the operator", error="internal")


async def answer(request: Request, error: BaseException) -> Response:
    """The response to a request that ended in ``error``; it needs no thread, and so waits for no
    other request."""
    problem = of_error(error)
    audited(request, error, problem)
    return response(problem, request.scope.get("request_id", ""))


def audited(request: Request, error: BaseException, problem: Problem) -> None:
    """The statement of a request fails with an error, of which its client is given a problem."""
    statement = request.scope.get(STATEMENT)
    if statement is not None:
        statement.failed(error, str(problem.detail))


def response(problem: Problem, request_id: str) -> Response:
    """The problem as a response."""
    body = {
        "error": problem.error,
        "message": problem.detail,
        "position": problem.position,
        "nearest": problem.nearest,
        "detail": problem.facts,
        "request_id": request_id,
    }
    headers = dict(problem.headers or {})
    if problem.status_code in (429, 503):
        headers.setdefault("Retry-After", str(_RETRY_S))
    return Response(
        orjson.dumps(body, default=str),
        status_code=problem.status_code,
        headers=headers,
        media_type="application/json",
    )


def _of_ours(error: BlockstoreError) -> Problem:
    message = " ".join(str(error).split())
    match error:
        case AccessDenied():
            return Problem(503, "the store refuses this gateway's credentials", error="unavailable")
        case Restricted():
            return Problem(403, message)
        case NotAQuery():
            return Problem(400, message, error="not_a_query")
        case BadSql():
            place = None if error.line is None else {"line": error.line, "column": error.column}
            return Problem(400, message, error="invalid_sql", position=place)
        case TooMuch():
            return Problem(413, message)
        case NoMemory():
            return Problem(422, message)
        case Invalid():
            return Problem(400, message)
        case VersionExpired():
            return Problem(410, message, error="version_expired")
        case UnknownTable():
            return Problem(404, message, error="unknown_table", nearest=error.nearest)
        case NotFound():
            return Problem(404, message)
        case Conflict():
            return Problem(409, message)
        case Busy():
            return Problem(429, message, headers=_retry_after(error))
        case Stale():
            return Problem(503, message, error="stale", headers=_retry_after(error))
        case Canceled():  # not 503: clients would send it again
            return Problem(499, message)
        case TimedOut():
            return Problem(504, message, error="timeout")
        case Indeterminate() | Unavailable():
            return Problem(503, message)
    _logger.error("stored bytes violate the format: %s", message)
    return Problem(500, message, error="corrupt")


def _retry_after(error: Busy | Stale) -> dict[str, str]:
    return {"Retry-After": str(max(1, math.ceil(error.retry_after_s)))}


def _of_validation(error: RequestValidationError) -> Problem:
    found = error.errors()
    return (
        Problem(415, _NOT_SENT_AS_JSON)
        if _is_not_sent_as_json(found)
        else Problem(400, sentence(found))
    )


def _is_not_sent_as_json(errors: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the body was not read because its Content-Type is not JSON."""
    return any(
        tuple(one["loc"]) == ("body",) and isinstance(one.get("input"), bytes) for one in errors
    )


def sentence(errors: Sequence[Mapping[str, Any]]) -> str:
    """The first error of the validation as a sentence; each location starts with the part of the
    request."""
    # A value that may have several forms has one error per form: the form that matched deepest was
    # meant.
    first = max(errors, key=lambda one: len(one["loc"]))
    part, *inside = first["loc"]
    if first["type"] == "json_invalid":
        where = f", at character {inside[0] + 1}" if inside else ""
        return f"the body is not valid JSON: {first['ctx']['error']}{where}"
    if not inside:
        found = "empty" if first["type"] == "missing" else "not an object"
        return f'the {part} is {found}, expected an object such as {{"sql": "select 1"}}'
    named = f"{_PLACES[part]} {inside[0]!r}"
    if first["type"] == "missing":
        return f"the {part} lacks the {named}"
    if first["type"] == "extra_forbidden":
        return f"the {part} has the unknown {named}; GET /docs lists the known ones"
    said = str(first["msg"])
    return f"the {part}'s {named} is invalid: {said[:1].lower()}{said[1:]}"
