"""The responses of a page: its files, and JSON that it polls.

Rules:
- Only files inside a page's folder are served.
- The HTML is revalidated (ETag). All else has an address that changes with the files
  (``/assets/…``), so a browser keeps it without asking again, and after an upgrade no page mixes
  old parts with new ones. Under the address of another release, which a proxy in front of several
  may ask for, the files are served as they are here, and not kept.
- The ETag of JSON is the hash of its bytes: polling costs only headers while nothing changes.
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
"""The files that both pages share: ``vendor/`` (libraries), ``shared/`` (theme, timeline)."""

MIDDLEWARE = (Middleware(SecurityHeaders), Middleware(GZipMiddleware, minimum_size=2_048))
"""The middleware of every response of a page."""

_REVALIDATED = {"Cache-Control": "no-cache"}
_KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}


class _Files(StaticFiles):
    """Files that a browser keeps, if their address is that of this release."""

    def __init__(self, folder: Path, release: str) -> None:
        super().__init__(directory=folder)
        self._release = release

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        is_ours = scope["path_params"]["release"] == self._release
        response.headers.update(_KEPT if is_ours else _REVALIDATED)
        return response


def page_routes(folder: Path) -> list[BaseRoute]:
    """A page: ``/`` is the ``index.html`` of the folder, in which ``{assets}`` is the address of
    the rest. Under it ``page/`` has the folder's files, and ``static/`` those that both pages
    share."""
    release = _digest(folder, STATIC)
    body = (folder / "index.html").read_bytes().replace(b"{assets}", f"/assets/{release}".encode())
    tag = _etag(body)

    def page(request: Request) -> Response:
        return _unless_known(request, body, tag, "text/html; charset=utf-8")

    return [
        Route("/", page, methods=["GET"], middleware=MIDDLEWARE),
        *(
            Mount(f"/assets/{{release}}/{name}", app=_Files(files, release), middleware=MIDDLEWARE)
            for name, files in (("page", folder), ("static", STATIC))
        ),
    ]


def _digest(*folders: Path) -> str:
    """A name for all files of these folders, by their paths and bytes."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            digest.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def json_response(request: Request, body: bytes) -> Response:
    """JSON, or 304 if the browser already has these bytes."""
    return _unless_known(request, body, _etag(body), "application/json")


def _etag(body: bytes) -> str:
    return f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'


def _unless_known(request: Request, body: bytes, tag: str, media_type: str) -> Response:
    headers = {"ETag": tag, **_REVALIDATED}
    known = [part.strip() for part in request.headers.get("if-none-match", "").split(",")]
    if tag in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=media_type, headers=headers)
