"""``POST /v1/query``: SQL in, rows out while they are computed."""

from __future__ import annotations

import json
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from blockstore.reader.audit import running
from blockstore.reader.doors.queries import Asked, Stopper, begun, counted
from blockstore.reader.forms.encode import pieces
from blockstore.reader.http.callers import Here, Known
from blockstore.reader.http.negotiate import MEDIA_TYPES, form_of
from blockstore.reader.http.passing import passed_on
from blockstore.reader.http.shapes import Error, Question, at_of, parameters_of
from blockstore.reader.http.streaming import (
    Patience,
    Streamed,
    first_piece,
    while_waited_for,
)
from blockstore.reader.query import Answer

ERRORS: dict[int | str, dict[str, object]] = {
    status: {"model": Error, "description": text}
    for status, text in (
        (400, "The request or its SQL is invalid"),
        (401, "The token is missing or unknown"),
        (403, "The token lacks the scope"),
        (404, "No such table, version, tag or job"),
        (406, "Accept names no form of a result"),
        (408, "The body did not arrive in time"),
        (409, "In conflict with the present state"),
        (410, "The version is no longer kept"),
        (413, "Too large"),
        (415, "Unsupported media type"),
        (422, "The query needs more memory than its limit"),
        (429, "Too many requests at once; see Retry-After"),
        (499, "The query was cancelled"),
        (503, "Unavailable; see Retry-After"),
        (504, "The query took longer than its limit"),
    )
}
"""The errors that any route may respond with."""

router = APIRouter(responses=ERRORS)

_FORMS: dict[int | str, dict[str, object]] = {
    200: {
        "description": "The rows, in the form that Accept selects; X-Blockstore-Versions "
        "lists the versions read",
        "content": {media: {} for media in MEDIA_TYPES.values()},
    }
}


@router.post("/v1/query", response_class=Response, responses=_FORMS, tags=["query"])
async def query(request: Request, question: Question, gateway: Here, caller: Known) -> Response:
    """Run SQL over the tables. Without Accept the rows are an Arrow stream."""
    statement = running()
    statement.text = question.sql
    wanted = form_of(request.headers.get("accept"))
    passed = await passed_on(request, gateway, caller, question.sql)
    if passed is not None:
        return passed
    http = gateway.settings.http
    stopper = Stopper()
    asked = Asked(
        sql=question.sql,
        parameters=parameters_of(question),
        at=at_of(question),
        limit=question.limit,
        row_ids=question.row_ids,
        min_version=question.min_version or {},
    )
    begin = partial(begun, gateway, caller, asked, stopper)
    answer = await while_waited_for(request.receive, stopper, begin)
    batches = counted(answer, statement)
    rest = pieces(wanted.form, answer.schema, batches, long_as_text=wanted.long_as_text)
    first = await first_piece(request.receive, rest, answer)
    return Streamed(
        first,
        rest,
        answer,
        Patience(http.stall_s, http.answer_s),
        media_type=wanted.media_type,
        headers=_headers(answer),
        whole_bytes=gateway.settings.query.spill_bytes,
    )


def _headers(answer: Answer) -> dict[str, str]:
    # How often others change a restricted table is not shown.
    shown = {name: one for name, one in answer.versions.items() if name not in answer.policies}
    versions = json.dumps(dict(sorted(shown.items())), separators=(",", ":"))
    return {"X-Blockstore-Versions": versions, "Vary": "Accept"}
