"""Pages of the web that a browser of this machine shows, at a gateway that asks for no token.

Rules, where no token is asked for; where one is, a page does not have it:
- A page whose name its owner lets lead to this machine is, to the browser, a page of the gateway.
  So the Host of a request must be this machine, the host that the gateway listens on or has in its
  group, or that of one of ``origins``.
- A browser sends some requests of a page to any host, and only hides the response. So a request
  that names its origin, or comes from another site, must be of the gateway's page or of one of
  ``origins``. A link that is followed may come from anywhere.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from blockstore.reader.http.problems import Problem

_NAME_IT = "make a token with blockstore token, or name it in origins of [http]"


class NoForeignPages:
    """Middleware that raises Problem 403 for what a page of the web may have sent."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str], origins: Collection[str]) -> None:
        self._app = app
        self._origins = frozenset(origins)
        named = {urlsplit(one).hostname or "" for one in origins}
        self._hosts = frozenset({"localhost", *named, *map(str.lower, hosts)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._check(scope["method"], Headers(scope=scope))
        await self._app(scope, receive, send)

    def _check(self, method: str, headers: Headers) -> None:
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        # A browser always sends a Host.
        if host and not self._is_own(_host_of(host)):
            raise Problem(
                403,
                f"a gateway without tokens answers to localhost, and not to {host[:200]!a}, as a "
                f"page of the web could have sent this request: use http://127.0.0.1, {_NAME_IT}",
            )
        site = headers.get("sec-fetch-site")
        # No page can write this header. Of the gateway's own page a browser may hide the origin.
        if origin in self._origins or site == "same-origin":
            return
        followed = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
        foreign = site == "cross-site" and not followed
        if foreign or (origin is not None and origin.lower().partition("://")[2] != host):
            raise Problem(
                403,
                f"a gateway without tokens takes no requests of the page "
                f"{(origin or 'of another site')[:200]!a}: {_NAME_IT}",
            )

    def _is_own(self, host: str) -> bool:
        try:
            return host in self._hosts or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False


def _host_of(given: str) -> str:
    """The host of a Host header, without its port."""
    if given.startswith("["):
        return given[1:].partition("]")[0]
    return given.partition(":")[0]
