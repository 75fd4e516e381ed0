"""The addresses of the compactor's page.

``/`` is the page, ``/assets`` its files and what it shares with the gateway's,
``/api/status`` and ``/api/timeline`` what it shows. All of it is read only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from blockstore.compactor.process.status import Status
from blockstore.compactor.web.encode import encode_status
from blockstore.errors import Invalid
from blockstore.service.pages.live import LiveTimelines
from blockstore.service.pages.responses import MIDDLEWARE, page_routes
from blockstore.service.pages.routes import TimelineSource, answering, timeline_routes
from blockstore.table import Table
from blockstore.world import World

_FILES = Path(__file__).parent / "static"


class PageSource(Protocol):
    """The running process; called from many threads."""

    @property
    def world(self) -> World:
        """The process's own."""
        ...

    def status(self) -> Status:
        """Its state now; made at once, without a request to the store."""
        ...

    def open(self, table: str) -> Table:
        """The process's handle on a table, by its name in the status. Raises NotFound."""
        ...


def routes(source: PageSource, *, timelines: TimelineSource | None = None) -> list[BaseRoute]:
    """The page's routes; ``timelines`` are by default those of the process's tables."""

    def quarantined(table: str) -> Mapping[str, str]:
        found = (one for one in source.status().tables if one.name == table)
        return {one.ulid: one.reason for status in found for one in status.quarantined}

    if timelines is None:
        timelines = LiveTimelines(source.open, source.world, quarantined=quarantined)

    def status(request: Request) -> bytes:
        asked = request.query_params
        page = asked.get("page", "0")
        if not (page.isascii() and page.isdigit() and len(page) < 6):
            raise Invalid(f"page is {page[:20]!r}, expected a number from 0")
        return encode_status(source.status(), asked.get("filter", "")[:200], int(page))

    return [
        *page_routes(_FILES),
        Route("/api/status", answering(status), methods=["GET"], middleware=MIDDLEWARE),
        *timeline_routes(timelines, "/api/timeline"),
    ]
