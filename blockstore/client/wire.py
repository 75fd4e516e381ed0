"""Requests to a gateway, and its errors as project errors.

Rules:
- A request that only reads is retried a few times: after 429 and 503, when the gateway says, and
  after a failed connection.
- A request that changes something is retried only with its first Idempotency-Key: the gateway then
  returns the same job.
- A response that breaks off raises Unavailable; a partial one is never taken for complete.
- What no gateway responds with, such as a redirect or a page, raises Invalid. No redirect is
  followed: a token is for one address.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    RowConflict,
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
    410: VersionExpired,
    422: NoMemory,
    429: Unavailable,
    499: Unavailable,
}


class NotAQuery(Invalid):
    """The SQL is a statement that is not a SELECT; nothing was run."""


class BadRow(Invalid):
    """A row breaks a rule of its table; nothing was written."""


class Wire:
    """The connections to one gateway, with a token; safe to share between threads."""

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
            # Certificates are loaded for https alone: that takes longer than a small request.
            verify=_context(verify) if url.startswith("https://") else False,
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def json(self, method: str, path: str, *, needs: Iterable[str] = (), **more: Any) -> Any:
        """Send a small request and return its JSON: an object, which has what it ``needs``."""
        with self.answer(method, path, **more) as found:
            try:
                body = json.loads(b"".join(pieces(found)))
            except ValueError as error:
                raise strange(found) from error
        if not isinstance(body, dict) or not body.keys() >= set(needs):
            raise strange(found)
        return body

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
        """Send a request; ``pieces`` reads the body of the response. ``content`` makes the body of
        the request for each try. Raises project errors."""
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
                        f"the gateway at {self._http.base_url} does not respond ({_shown(error)}): "
                        "check the address, and that it is running"
                    ) from error
                self.world.clock.sleep(self.world.ids.uniform(0.1, 0.5))
                continue
            if found.is_success:
                return found
            wait_s = _wait_s(found)
            problem = _problem(found)
            if not left or found.status_code not in (429, 503):
                raise problem
            self.world.clock.sleep(min(wait_s, _LONGEST_WAIT_S) * self.world.ids.uniform(0.5, 1.0))
        raise AssertionError("the last try returns or raises")


_BY_ERROR: Mapping[str, type[BlockstoreError]] = {"not_a_query": NotAQuery, "bad_row": BadRow}


def pieces(found: httpx.Response) -> Iterator[bytes]:
    """The body of a response. Raises Unavailable if it breaks off."""
    httpx = _httpx()
    try:
        yield from found.iter_bytes()
    except (httpx.HTTPError, httpx.StreamError) as error:
        raise Unavailable(f"the gateway's response broke off ({_shown(error)}): retry") from error


def conflict(message: str, detail: object) -> Conflict:
    """A conflict, with the rows that the gateway lists."""
    rows = detail.get("rows") if isinstance(detail, dict) else None
    if not isinstance(rows, list):
        return Conflict(message)
    named = []
    try:
        for one in rows:
            row = one["row"]
            key = tuple(row) if isinstance(row, list) else row
            named.append((key, one["expected"], one["found"]))
    except (KeyError, TypeError):
        return Conflict(message)
    return RowConflict(message, rows=named)


def strange(found: httpx.Response) -> Invalid:
    """The error for a response that is not a gateway's."""
    return Invalid(_strange(found))


def _strange(found: httpx.Response) -> str:
    elsewhere = found.headers.get("location")
    where = f", and names {elsewhere}" if elsewhere else ""
    return (
        f"the response with status {found.status_code} is not a gateway's{where}: check the address"
    )


def _problem(found: httpx.Response) -> BlockstoreError:
    """The error in a response."""
    status, detail, kind = found.status_code, None, ""
    try:
        found.read()
        body = found.json()
        message, detail, kind = str(body["message"]), body.get("detail"), str(body.get("error"))
        if body.get("request_id"):
            message = f"{message} (request {body['request_id']})"
    except (ValueError, KeyError, TypeError, _httpx().HTTPError):
        message = _strange(found)
    finally:
        found.close()
    if status == 409:
        return conflict(message, detail)
    if status == 500:
        return Corrupt(message) if kind == "corrupt" else Unavailable(message)
    usual = Invalid if status < 500 else Unavailable
    return (_BY_ERROR.get(kind) or _BY_STATUS.get(status) or usual)(message)


def _wait_s(found: httpx.Response) -> float:
    text = found.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else 1.0


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _context(verify: str | bool) -> Any:
    import ssl

    return ssl.create_default_context(cafile=verify) if isinstance(verify, str) else verify


def _httpx() -> Any:
    try:
        import httpx
    except ModuleNotFoundError as error:
        raise missing(error, "the client", "client") from error
    return httpx
