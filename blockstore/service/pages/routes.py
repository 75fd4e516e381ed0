"""The routes of the timeline, for any server with Starlette routes.

Rules:
- Table names and ULIDs are query parameters and may contain any character.
- Errors are one JSON shape, ``{"error": "…"}``: 404 for what does not exist, 503 for a store that
  does not respond.
- Access control is the server's: it mounts these routes behind its own.
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
from blockstore.service.pages.responses import MIDDLEWARE, json_response
from blockstore.service.pages.timeline import Timeline


class TimelineSource(Protocol):
    """Where timelines come from. Both methods raise NotFound for an unknown table and may be called
    from many threads."""

    def timeline(self, table: str) -> Timeline:
        """The timeline of a table, at most a short time old."""
        ...

    def detail(self, table: str, ulid: str) -> BlockDetail:
        """The detail of one block. Raises NotFound if it is unknown."""
        ...


def timeline_routes(source: TimelineSource, prefix: str = "/timeline") -> list[Route]:
    """``GET {prefix}?table=…`` returns the blocks, ``GET {prefix}/block?table=…&ulid=…`` one of
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
    """An endpoint that returns the JSON that ``make`` makes, or the error that it raises."""

    def endpoint(request: Request) -> Response:
        try:
            body = make(request)
        except BlockstoreError as error:
            return Response(
                orjson.dumps({"error": str(error)}),
                status_code=_status(error),
                media_type="application/json",
            )
        return json_response(request, body)

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
