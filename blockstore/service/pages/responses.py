"""Files of a page, and answers that a page asks for again and again.

Rules:
- A file is asked for by name inside its folder and nowhere else; a browser asks again whether it
  changed (ETag) and does not guess for how long it is good: after an upgrade no page mixes old
  parts with new.
- JSON carries the hash of its bytes as its ETag: a page that polls costs no more than the header
  while nothing changed.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from blockstore.service.serving import SecurityHeaders

STATIC = Path(__file__).parent / "static"
"""What both pages share: ``vendor/`` (libraries) and ``shared/`` (theme, timeline)."""

MIDDLEWARE = (Middleware(SecurityHeaders), Middleware(GZipMiddleware, minimum_size=2_048))
"""Around every answer of a page."""

_REVALIDATED = {"Cache-Control": "no-cache"}


class _Files(StaticFiles):
    """Static files that a browser revalidates."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(_REVALIDATED)
        return response


def static_route(prefix: str = "/static", folder: Path = STATIC) -> BaseRoute:
    """The files of a folder under ``prefix``; the default is what both pages share."""
    return Mount(prefix, app=_Files(directory=folder), middleware=MIDDLEWARE)


def page_route(path: str, file: Path) -> Route:
    """One HTML file at ``path``."""
    body = file.read_bytes()
    tag = _etag(body)

    def page(request: Request) -> Response:
        return _unless_known(request, body, tag, "text/html; charset=utf-8")

    return Route(path, page, methods=["GET"], middleware=MIDDLEWARE)


def json_answer(request: Request, body: bytes) -> Response:
    """JSON, or 304 if the browser holds these bytes already."""
    return _unless_known(request, body, _etag(body), "application/json")


def _etag(body: bytes) -> str:
    return f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'


def _unless_known(request: Request, body: bytes, tag: str, media_type: str) -> Response:
    headers = {"ETag": tag, **_REVALIDATED}
    known = [part.strip() for part in request.headers.get("if-none-match", "").split(",")]
    if tag in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=media_type, headers=headers)
