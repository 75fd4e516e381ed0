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

from blockstore.service.pages import responses

__all__ = ["page_routes"]

FOLDER = Path(__file__).parent / "static"


def page_routes() -> list[BaseRoute]:
    """``/`` is the page, ``/assets/…`` are its own files and those that it shares with the
    compactor's page."""
    return responses.page_routes(FOLDER)
