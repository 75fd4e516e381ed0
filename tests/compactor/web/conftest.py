"""The browser, and the page of a busy process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from starlette.applications import Starlette

from blockstore.compactor.web import routes
from blockstore.service.pages.timeline import Timeline
from blockstore.service.serving import Server
from blockstore.world import World
from tests.blockstore.service.pages.scene import lived_in
from tests.compactor.web.process import Drawn, ShownProcess, busy
from tests.support.asking import HERE
from tests.support.browser import browser, profiles, visit

__all__ = ["browser", "profiles", "shown", "visit"]


@dataclass(frozen=True, slots=True)
class Shown:
    """A page and what is behind it, which a test may change."""

    url: str
    process: ShownProcess
    drawn: Drawn

    def draw(self, timeline: Timeline) -> None:
        """Let a table's blocks be these from now on."""
        self.drawn.timelines[timeline.table] = timeline


@pytest.fixture
def shown() -> Iterator[Shown]:
    """The page of a lake in the middle of its work."""
    process = ShownProcess(World.real(), busy())
    drawn = Drawn(*(lived_in(300, table=name) for name in ("readings", "events", "trips")))
    with Server(Starlette(routes=routes(process, timelines=drawn)), HERE) as server:
        yield Shown(server.url, process, drawn)
