"""The addresses of the compactor's page.

``/`` is the page, ``/page`` its files, ``/static`` what it shares with the gateway's,
``/api/status`` and ``/api/timeline`` what it shows. All of it is read only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from blockstore.compactor.web.encode import encode_status
from blockstore.compactor.web.source import PageSource
from blockstore.service.pages.live import LiveTimelines
from blockstore.service.pages.responses import MIDDLEWARE, page_route, static_route
from blockstore.service.pages.routes import TimelineSource, answering, timeline_routes

__all__ = ["routes"]

_FILES = Path(__file__).parent / "static"


def routes(source: PageSource, *, timelines: TimelineSource | None = None) -> list[BaseRoute]:
    """The page's routes. ``timelines`` are by default those of the process's own tables."""

    def quarantined(table: str) -> Mapping[str, str]:
        found = (one for one in source.status().tables if one.name == table)
        return {one.ulid: one.reason for status in found for one in status.quarantined}

    if timelines is None:
        timelines = LiveTimelines(source.open, source.world, quarantined=quarantined)

    def status(_: Request) -> bytes:
        return encode_status(source.status())

    return [
        page_route("/", _FILES / "index.html"),
        static_route("/page", _FILES),
        static_route(),
        Route("/api/status", answering(status), methods=["GET"], middleware=MIDDLEWARE),
        *timeline_routes(timelines, "/api/timeline"),
    ]
