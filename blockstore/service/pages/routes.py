"""The timeline's addresses, for any server that takes Starlette's routes.

Rules:
- Table names and ULIDs come as parameters of the query, whatever characters they have.
- Errors are one JSON shape: ``{"error": "…"}``, with 404 for what is not there and 503 for a store
  that does not answer.
- Who may look is for the server to say: it mounts these behind its own gate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from blockstore.errors import BlockstoreError, Invalid, NotFound, Unavailable
from blockstore.names import is_ulid
from blockstore.service.pages.columns import encode
from blockstore.service.pages.detail import BlockDetail, encode_detail
from blockstore.service.pages.responses import MIDDLEWARE, json_answer
from blockstore.service.pages.timeline import Timeline


class TimelineSource(Protocol):
    """Where timelines come from.

    Both raise NotFound for a table that is not there; safe to call from many threads.
    """

    def timeline(self, table: str) -> Timeline:
        """The table's blocks as of now, or of a moment ago."""
        ...

    def detail(self, table: str, ulid: str) -> BlockDetail:
        """One block of the table. Raises NotFound if nothing is known of it."""
        ...


def timeline_routes(source: TimelineSource, prefix: str = "/timeline") -> list[Route]:
    """``GET {prefix}?table=…`` answers the blocks, ``GET {prefix}/block?table=…&ulid=…`` one of
    them."""

    def blocks(request: Request) -> bytes:
        return encode(source.timeline(_parameter(request, "table")))

    def block(request: Request) -> bytes:
        ulid = _parameter(request, "ulid")
        if not is_ulid(ulid):
            raise Invalid(f"ulid is {ulid[:40]!r}, expected a block's ULID of 26 characters")
        return encode_detail(source.detail(_parameter(request, "table"), ulid))

    return [
        Route(prefix, answering(blocks), methods=["GET"], middleware=MIDDLEWARE),
        Route(f"{prefix}/block", answering(block), methods=["GET"], middleware=MIDDLEWARE),
    ]


def answering(make: Callable[[Request], bytes]) -> Callable[[Request], Response]:
    """An endpoint that answers the JSON that ``make`` makes, or the error that it raises."""

    def endpoint(request: Request) -> Response:
        try:
            body = make(request)
        except BlockstoreError as error:
            return Response(
                orjson.dumps({"error": str(error)}),
                status_code=_status(error),
                media_type="application/json",
            )
        return json_answer(request, body)

    return endpoint


def _parameter(request: Request, name: str) -> str:
    value = request.query_params.get(name, "")
    if not value:
        raise Invalid(f"the parameter {name} is missing from {request.url.path}")
    return value


def _status(error: BlockstoreError) -> int:
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, Invalid):
        return 400
    return 503 if isinstance(error, Unavailable) else 500
