"""Where the page's files are.

Rules:
- No token is needed for them: they hold no data. What they show comes from the HTTP API, which asks
  for one.
- Every file is served from this package, under the policy of ``blockstore.service.pages``: nothing
  inline, nothing foreign.
"""

from __future__ import annotations

from pathlib import Path

from starlette.routing import BaseRoute

from blockstore.service.pages.responses import page_route, static_route

FOLDER = Path(__file__).parent / "static"


def page_routes() -> list[BaseRoute]:
    """``/`` is the page, ``/page/…`` its own files, ``/static/…`` what it shares with the
    compactor's page."""
    return [page_route("/", FOLDER / "index.html"), static_route("/page", FOLDER), static_route()]
