"""A pretended gateway, served, and the browser that looks at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from blockstore.service.listening import Listening
from blockstore.service.serving import Server
from tests.reader.page.pretended import Pretended
from tests.support.browser import browser, profiles, visit

__all__ = ["browser", "gateway", "profiles", "url", "visit"]


@pytest.fixture
def gateway() -> Pretended:
    """A gateway's state, for a test to change."""
    return Pretended()


class Front:
    """One address for the gateways of a module: the browser keeps the page's scripts by it."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


@pytest.fixture(scope="module")
def front() -> Iterator[tuple[Front, str]]:
    """What serves the gateway of the test, and where."""
    front = Front()
    front.app = Pretended().app()
    with Server(front, Listening(host="127.0.0.1", port=0)) as server:
        yield front, f"{server.url}/"


@pytest.fixture
def url(gateway: Pretended, front: tuple[Front, str]) -> str:
    """Where the gateway's page is served."""
    front[0].app = gateway.app()
    return front[1]
