"""An application asked over real HTTP, on a free port of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from starlette.types import ASGIApp

from blockstore.service.listening import Listening
from blockstore.service.serving import Server

HERE = Listening(host="127.0.0.1", port=0)


@contextmanager
def asking(app: ASGIApp) -> Iterator[httpx.Client]:
    """A client of the application, which is served meanwhile."""
    # Certificates, which plain HTTP does not need, take longer to load than most requests.
    with (
        Server(app, HERE) as server,
        httpx.Client(base_url=server.url, timeout=60, verify=False) as client,
    ):
        yield client
