"""The gateway's page: a console, the tables, their history and jobs, in the browser.

The page is static files without a build step (``static/``): one HTML file, modules of JavaScript
and style sheets. It knows nothing that the HTTP API does not tell every client; its state is the
URL's fragment, so that every view can be linked to.

Rules:
- The files need no token: they hold no data. What they show comes from the HTTP API, which requires
  one.
- Every file is served from this package, under the content security policy of
  ``blockstore.service.pages``: no inline script or style, nothing from another host.

Example::

    Starlette(routes=page_routes())
"""

from __future__ import annotations

from pathlib import Path

from starlette.routing import BaseRoute

from blockstore.service.pages.responses import page_route, static_route

__all__ = ["page_routes"]

FOLDER = Path(__file__).parent / "static"


def page_routes() -> list[BaseRoute]:
    """``/`` is the page, ``/page/…`` its own files, ``/static/…`` what it shares with the
    compactor's page."""
    return [page_route("/", FOLDER / "index.html"), static_route("/page", FOLDER), static_route()]
