"""The responses of a page: its files, and JSON that it polls.

Rules:
- A page is served as it was when the process started: an upgrade under a running process changes
  nothing until its next start. Nothing but these files can be asked for.
- The HTML is revalidated (ETag). All else has an address that changes with the files
  (``/assets/…``), so a browser keeps it without asking again.
- Under the address of another release, the files are served as they are here, and not kept: a
  proxy in front of two releases asks for them so. Its page may then mix both, until it is loaded
  again from one of them.
- The ETag of JSON is the hash of its bytes: polling costs only headers while nothing changes.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from blockstore.service.serving import SecurityHeaders

STATIC = Path(__file__).parent / "static"
"""The files that both pages share: ``vendor/`` (libraries), ``shared/`` (theme, timeline)."""

MIDDLEWARE = (Middleware(SecurityHeaders), Middleware(GZipMiddleware, minimum_size=2_048))
"""The middleware of every response of a page."""

_REVALIDATED = {"Cache-Control": "no-cache"}
_KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}


def page_routes(folder: Path) -> list[BaseRoute]:
    """A page: ``/`` is the ``index.html`` of the folder, in which ``{assets}`` is the address of
    the rest. Under it ``page/`` has the folder's files, and ``static/`` those that both pages
    share."""
    files = {**_read("page", folder), **_read("static", STATIC)}
    release = _digest(files)
    html = files["page/index.html"].replace(b"{assets}", f"/assets/{release}".encode())

    async def page(request: Request) -> Response:
        return _unless_known(request, html, "text/html; charset=utf-8")

    async def asset(request: Request) -> Response:
        path = request.path_params["path"]
        if path not in files:
            raise HTTPException(404)
        cached = _KEPT if request.path_params["release"] == release else _REVALIDATED
        return _unless_known(request, files[path], _media_type(path), cached)

    return [
        Route("/", page, methods=["GET"], middleware=MIDDLEWARE),
        Route("/assets/{release}/{path:path}", asset, methods=["GET"], middleware=MIDDLEWARE),
    ]


def _read(name: str, folder: Path) -> dict[str, bytes]:
    """The files of a folder, by the name and their path in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {f"{name}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in files}


def _digest(files: Mapping[str, bytes]) -> str:
    """A name for all of these files, by their paths and bytes."""
    digest = hashlib.sha256()
    for path, body in files.items():
        digest.update(f"{path} {len(body)}\n".encode() + body)
    return digest.hexdigest()[:16]


def _media_type(path: str) -> str:
    return mimetypes.guess_type(path)[0] or "application/octet-stream"


def json_response(request: Request, body: bytes) -> Response:
    """JSON, or 304 if the browser already has these bytes."""
    return _unless_known(request, body, "application/json")


def _unless_known(
    request: Request, body: bytes, media_type: str, cached: Mapping[str, str] = _REVALIDATED
) -> Response:
    tag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, **cached}
    known = [part.strip() for part in request.headers.get("if-none-match", "").split(",")]
    if tag in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=media_type, headers=headers)
