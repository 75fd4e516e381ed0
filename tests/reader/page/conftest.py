"""A pretended gateway, served, and the browser that looks at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from blockstore.service.listening import Listening
from blockstore.service.serving import Server
from tests.reader.page.pretended import Pretended
from tests.support.browser import browser, visit

__all__ = ["browser", "gateway", "url", "visit"]


@pytest.fixture
def gateway() -> Pretended:
    """A gateway's state, for a test to change."""
    return Pretended()


@pytest.fixture
def url(gateway: Pretended) -> Iterator[str]:
    """Where the gateway's page is served."""
    with Server(gateway.app(), Listening(host="127.0.0.1", port=0)) as server:
        yield f"{server.url}/"
