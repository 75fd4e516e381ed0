"""Requests to a gateway, and its errors as those of the tree.

Rules:
- What only asks is sent again after 429 and 503, when the gateway says, and after a connection that
  failed: a few times.
- What changes something is sent again only with the Idempotency-Key under which it was sent first:
  the gateway then answers the same job.
- An answer that breaks off is Unavailable; half of one is never taken for whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from blockstore.errors import (
    AccessDenied,
    BlockstoreError,
    Conflict,
    Corrupt,
    Invalid,
    NoMemory,
    NotFound,
    Unavailable,
    VersionExpired,
)
from blockstore.extras import missing
from blockstore.world import World

if TYPE_CHECKING:
    import httpx

_TRIES = 4
_LONGEST_WAIT_S = 30.0
_BY_STATUS: Mapping[int, type[BlockstoreError]] = {
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    410: VersionExpired,
    422: NoMemory,
    429: Unavailable,
}


class Wire:
    """One gateway's address, a token, and the connections to it; safe to share between threads."""

    def __init__(
        self,
        url: str,
        token: str | None,
        world: World,
        *,
        timeout_s: float,
        verify: str | bool = True,
    ) -> None:
        httpx = _httpx()
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        if not url.startswith(("http://", "https://")):
            raise Invalid(
                f"the gateway's URL is {url!r}, expected one such as https://gateway:8080"
            )
        self.world = world
        self._http = httpx.Client(
            base_url=url.rstrip("/"),
            headers=headers,
            timeout=httpx.Timeout(timeout_s, connect=10.0),
            verify=_context(verify) if isinstance(verify, str) else verify,
        )

    def close(self) -> None:
        """Let the connections go."""
        self._http.close()

    def json(self, method: str, path: str, **more: Any) -> Any:
        """The JSON that a small request answers."""
        with self.answer(method, path, **more) as found:
            return json.loads(b"".join(pieces(found)))

    @contextmanager
    def answer(
        self,
        method: str,
        path: str,
        *,
        content: Callable[[], Any] | None = None,
        again: bool = True,
        **more: Any,
    ) -> Iterator[httpx.Response]:
        """The answer, its body not read yet: ``pieces`` reads it. ``content`` makes the body, anew
        for each try. Raises errors of the tree."""
        found = self._sent(method, path, content, again, more)
        try:
            yield found
        finally:
            found.close()

    def _sent(
        self,
        method: str,
        path: str,
        content: Callable[[], Any] | None,
        again: bool,
        more: dict[str, Any],
    ) -> httpx.Response:
        httpx = _httpx()
        for left in range(_TRIES - 1 if again else 0, -1, -1):
            body = {} if content is None else {"content": content()}
            request = self._http.build_request(method, path, **body, **more)
            try:
                found = self._http.send(request, stream=True)
            except httpx.HTTPError as error:
                if not left:
                    raise Unavailable(
                        f"the gateway at {self._http.base_url} does not answer ({_told(error)}): "
                        "check the address, and "
                        "that it runs"
                    ) from error
                self.world.clock.sleep(self.world.ids.uniform(0.1, 0.5))
                continue
            if found.status_code < 400:
                return found
            wait_s = _wait_s(found)
            problem = _problem(found)
            if not left or found.status_code not in (429, 503):
                raise problem
            self.world.clock.sleep(min(wait_s, _LONGEST_WAIT_S) * self.world.ids.uniform(0.5, 1.0))
        raise AssertionError("the last try returns or raises")


def pieces(found: httpx.Response) -> Iterator[bytes]:
    """The body of an answer.

    Raises Unavailable if it breaks off; errors of whoever takes the pieces stay theirs.
    """
    httpx = _httpx()
    try:
        yield from found.iter_bytes()
    except (httpx.HTTPError, httpx.StreamError) as error:
        raise Unavailable(f"the gateway's answer broke off ({_told(error)}): ask again") from error


def _problem(found: httpx.Response) -> BlockstoreError:
    """The error that an answer tells."""
    status = found.status_code
    try:
        found.read()
        body = found.json()
        message = str(body["message"])
        if body.get("request_id"):
            message = f"{message} (request {body['request_id']})"
    except (ValueError, KeyError, TypeError, _httpx().HTTPError):
        message = f"the gateway answered {status}, and not as one does: check the address"
    finally:
        found.close()
    kind = _BY_STATUS.get(status)
    if kind is None and status == 500:
        return Corrupt(message) if '"corrupt"' in found.text else Unavailable(message)
    return (kind or (Invalid if status < 500 else Unavailable))(message)


def _wait_s(found: httpx.Response) -> float:
    text = found.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else 1.0


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _context(path: str) -> Any:
    import ssl

    return ssl.create_default_context(cafile=path)


def _httpx() -> Any:
    try:
        import httpx
    except ModuleNotFoundError as error:
        raise missing(error, "the client", "client") from error
    return httpx
