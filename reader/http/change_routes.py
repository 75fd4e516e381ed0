"""The changes of a table over HTTP: rows in any form, a long poll, or server-sent events.

Rules:
- ``X-Blockstore-Until`` names the version after which to continue.
- An event has an id, its version, only if it is the last of its version: a browser that connects
  again sends the id of the last complete version, and gets each later one from its beginning.
- So few may wait at once that queries keep their threads: beyond that the response is 429.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated

import pyarrow as pa
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from blockstore.feed.changes import Changes
from blockstore.format.durations import parse_duration
from blockstore.format.identity import VERSION
from blockstore.index.idle import IdleLook
from blockstore.reader.doors.access import check_still
from blockstore.reader.forms.encode import Form, pieces
from blockstore.reader.http.callers import Here, Reading
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.negotiate import MEDIA_TYPES, form_of
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.streaming import Patience, Streamed, first_piece, while_waited_for
from blockstore.reader.http.table_routes import Name
from blockstore.reader.http.tokens import Caller
from blockstore.table import Table

router = APIRouter(responses=ERRORS, tags=["tables"])

EVENTS = "text/event-stream"
FOLLOWERS = 100
_LONGEST_WAIT_S = 60.0
_POLL_S = 0.5
_ALIVE_S = 15.0
_DIGITS = 18
_EVENT_ROWS = 1_000
_FORMS: dict[int | str, dict[str, object]] = {
    200: {
        "description": "The changes, in the form that Accept selects; X-Blockstore-Until names the "
        "version to continue after",
        "content": {media: {} for media in (*MEDIA_TYPES.values(), EVENTS)},
    }
}
_places = threading.BoundedSemaphore(FOLLOWERS)

After = Annotated[
    int | None,
    Query(ge=0, le=2**63 - 1, description="Begin after this version; 0 begins with the table"),
]
Until = Annotated[
    int | None, Query(ge=0, le=2**63 - 1, description="End with this version, not the newest")
]
Wait = Annotated[
    str, Query(max_length=20, description="How long to wait for a newer version, such as 30s")
]


@router.get("/v1/tables/{table:path}/changes", response_class=Response, responses=_FORMS)
async def changes(
    request: Request,
    gateway: Here,
    caller: Reading,
    table: Name,
    after: After = None,
    until: Until = None,
    before_images: bool = False,
    wait: Wait = "0s",
) -> Response:
    """What versions of a table changed, row by row. Without Accept an Arrow stream; with
    `text/event-stream` events that go on as versions come, from the header Last-Event-ID on."""
    accept = request.headers.get("accept")
    events = EVENTS in (accept or "")
    if events and request.scope.get("http_version") == "1.0":
        raise Problem(505, "events have no end, and HTTP/1.0 needs one: use HTTP/1.1")
    form = form_of(None if events else accept)
    begin = _after(after, request.headers.get("last-event-id") if events else None)
    wait_s = 0.0 if events else _seconds(wait)
    follows = events or wait_s > 0
    reader = _Reader(gateway, table, caller, until, images=before_images, follows=follows)
    try:
        call = partial(reader.begin, begin, wait_s)
        found = await while_waited_for(request.receive, reader, call)
    except BaseException:
        reader.close()
        raise
    if events:
        rest = reader.events(found)
        media, headers = EVENTS, {"Cache-Control": "no-store"}
    else:
        rest = pieces(form.form, found.schema, found, long_as_text=form.long_as_text)
        media, headers = form.media_type, {"X-Blockstore-Until": str(found.until)}
    http = gateway.settings.http
    return Streamed(
        await first_piece(request.receive, rest, reader),
        rest,
        reader,
        Patience(http.stall_s, http.answer_s),
        media_type=media,
        headers={**headers, "Vary": "Accept"},
        whole_bytes=gateway.settings.query.spill_bytes,
    )


class _Reader:
    """Reads changes and waits for newer ones."""

    def __init__(
        self,
        gateway: Gateway,
        table: str,
        caller: Caller,
        until: int | None,
        *,
        images: bool,
        follows: bool,
    ) -> None:
        self._clock = gateway.world.clock
        self._check = partial(check_still, gateway, caller)
        self._open: Callable[[], Table] = partial(gateway.tables.table, table, caller.tables)
        self._until = until
        self._images = images
        self._ended = threading.Event()
        self._placed = False
        if follows:
            self._placed = _places.acquire(blocking=False)
            if not self._placed:
                raise Problem(
                    429,
                    f"{FOLLOWERS} requests wait for changes already: ask again later, or without "
                    "wait",
                    headers={"Retry-After": "5"},
                )

    def begin(self, after: int, wait_s: float) -> Changes:
        """The changes after a version; if there is none newer yet, what came within ``wait_s``."""
        handle = self._open()
        handle.log.poll()
        self._wait(handle, after, wait_s)
        return handle.changes(after, self._until, before_images=self._images)

    def events(self, found: Changes) -> Iterator[bytes]:
        """Server-sent events, without end unless a last version was named."""
        yield b": changes\n\n"
        while not self._ended.is_set():
            yield from self._told(found)
            if self._until is not None:
                return
            handle = self._open()
            idle = IdleLook(handle.log, self._clock)
            while not self._ended.is_set() and handle.log.poll().version == found.until:
                self._wait(handle, found.until, _ALIVE_S)
                idle.look()
                yield b": waiting\n\n"
            # Where versions come all the time nothing waits.
            self._check()
            found = handle.changes(found.until, before_images=self._images)

    def cancel(self) -> None:
        """Stop waiting."""
        self._ended.set()

    def close(self) -> None:
        """Leave the place."""
        self.cancel()
        if self._placed:
            self._placed = False
            _places.release()

    def _told(self, found: Changes) -> Iterator[bytes]:
        held: pa.RecordBatch | None = None
        for batch in found:
            self._check()
            for start in range(0, batch.num_rows, _EVENT_ROWS):
                part = batch.slice(start, _EVENT_ROWS)
                if held is not None:
                    yield _event(held, ends=held[VERSION][0] != part[VERSION][0])
                held = part
        if held is not None:
            yield _event(held, ends=True)
        yield b"id: %d\nevent: version\ndata: %d\n\n" % (found.until, found.until)

    def _wait(self, handle: Table, after: int, wait_s: float) -> None:
        ends = self._clock.monotonic_s() + wait_s
        while (
            not self._ended.is_set()
            and self._clock.monotonic_s() < ends
            and handle.log.poll().version == after
        ):
            self._check()
            self._clock.sleep(min(_POLL_S, max(0.0, ends - self._clock.monotonic_s())))


def _event(batch: pa.RecordBatch, *, ends: bool) -> bytes:
    """Some rows of a version, a JSON object a line; with the id of the version if it ends with
    them."""
    rows = b"".join(pieces(Form.NDJSON, batch.schema, [batch]))
    data = b"".join(b"data: " + line + b"\n" for line in rows.splitlines())
    number = b"id: %d\n" % batch[VERSION][0].as_py() if ends else b""
    return number + b"event: changes\n" + data + b"\n"


def _after(given: int | None, last: str | None) -> int:
    if last is not None and last.isascii() and last.isdigit() and len(last) <= _DIGITS:
        return int(last)
    if given is None:
        raise Problem(400, "after is missing: name the version to begin after, or 0")
    return given


def _seconds(wait: str) -> float:
    seconds = parse_duration(float(wait) if wait.isascii() and wait.isdigit() else wait, "wait")
    if seconds > _LONGEST_WAIT_S:
        raise Problem(400, f"wait is {wait!r}, expected at most {_LONGEST_WAIT_S:g}s")
    return seconds
