"""What applies to every call of this door: its token, its place, its log line, and its end.

Rules:
- A call without a known token is refused before its handler sees it. The handshake takes the token
  as the password of a Basic header, whatever the user's name, and returns it as a bearer token.
- A call whose client is gone, that reads or sends nothing for ``stall``, or that is not done after
  ``answer_time``, is ended: its query is stopped and its slot is free at once.
- A call is watched until pyarrow says that it has ended, and never after: its context is gone then.
- A call has its place in the audit log if it ran a statement, or if it failed.
- The log has one line for each call, as that of HTTP: no statement, no token.
"""

from __future__ import annotations

import base64
import binascii
import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from pyarrow import flight

from blockstore.reader.audit import Outcome
from blockstore.reader.audit import Statement as Audited
from blockstore.reader.doors.access import caller_of
from blockstore.reader.flight.failures import Closing, Stalled, audit_failure, raised, status_of
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.tokens import Caller

_logger = logging.getLogger("blockstore.access")

NAME = "call"
_MOST = 512
"""Calls at once. Each has a thread of gRPC's; queries among them wait for their turn."""
_LOOK_S = 0.1
_LOOKS_A_SECOND = 10
_CLOSING = "the gateway is shutting down: try another"
_SETTLES_S = 0.1
"""After this time gRPC knows of a stream that it reports as ended whether its client is gone."""
_MAY_CHANGE = frozenset({"do_put", "get_flight_info"})
"""Calls that may wait for a job."""
_HANDSHAKE = flight.FlightMethod.HANDSHAKE


class Call(flight.ServerMiddleware):
    """One call: who sent it, and what ends it early. pyarrow calls ``call_completed`` once."""

    def __init__(
        self,
        calls: Calls,
        caller: Caller,
        method: str,
        headers: Mapping[str, Sequence[object]],
        statement: Audited,
    ) -> None:
        self._calls = calls
        self.statement = statement
        """What the audit log will have of it."""
        self.streams = False
        """Whether its statement ends with its stream, and not with its handler."""
        self._clock = calls.gateway.world.clock
        self.caller = caller
        self.method = method
        self._headers = headers
        self._lock = threading.Lock()
        self._context: flight.ServerCallContext | None = None
        self._stop: Callable[[], None] = lambda: None
        self._begun_s = self._clock.monotonic_s()
        self._waits_s: float | None = None
        self._over = False
        self.reason: Exception | None = None
        """Why it was ended early."""
        self.failure: Exception | None = None
        """Why its handler refused it."""
        self.ticket = b""
        """The ticket that it takes."""
        self.peer = ""
        """Its client's address and port, as gRPC writes them."""
        self.answered: str | None = None
        """The header ``authorization`` of the response."""

    def header(self, name: str) -> str | None:
        """The value of a header of the call."""
        values = self._headers.get(name) or ()
        return str(values[0]) if values else None

    def enter(self, context: flight.ServerCallContext) -> None:
        """The handler of the call begins: from now on it is watched."""
        with self._lock:
            self._context = context
            self.peer = context.peer()

    def watch_by(self, stop: Callable[[], None]) -> None:
        """From now on, end the call early by ``stop``, which any thread may call."""
        with self._lock:
            self._stop = stop
            late = self.reason is not None
        if late:
            stop()

    def waits(self) -> None:
        """From now on it is the client's turn: to take what it was given, or to send more."""
        self._waits_s = self._clock.monotonic_s()

    def goes_on(self) -> None:
        """It is the gateway's turn again. Raises the reason if the call was ended meanwhile."""
        self._waits_s = None
        with self._lock:
            if self.reason is not None:
                raise self.reason

    def check_complete(self) -> None:
        """The client has sent everything, or is gone: gRPC reports both as the end of its stream,
        and a moment later that the call was cancelled. Raises the reason if it is gone."""
        self._clock.sleep(_SETTLES_S)
        self.look()
        self.goes_on()

    def gone(self) -> bool:
        """Whether the call was ended early."""
        return self.reason is not None

    def look(self) -> None:
        """End the call if its client is gone or too slow."""
        with self._lock:
            if self._over or self._context is None or self.reason is not None:
                return
            self.reason = self._why(self._context)
            if self.reason is None:
                return
            self._stop()
        self._left()

    def end(self, reason: Exception) -> None:
        """End the call early."""
        with self._lock:
            if self._over or self.reason is not None:
                return
            self.reason = reason
            self._stop()
        self._left()

    def _left(self) -> None:
        """It was ended early. A client that takes nothing keeps its call open: what ran for it has
        ended all the same, where it was a stream. A change may still be committed."""
        if self.streams and self.reason is not None:
            audit_failure(self.statement, self.reason)

    def sending_headers(self) -> dict[str, str]:
        return {} if self.answered is None else {"authorization": self.answered}

    def call_completed(self, exception: BaseException | None) -> None:
        with self._lock:
            self._over = True
            self._context = None
        error = self.reason or self.failure or exception
        if error is not None:
            audit_failure(self.statement, error)
        self.statement.end(Outcome.CANCELLED, "the rows were not taken to their end")
        self._calls.ended(self, status_of(error), self._clock.monotonic_s() - self._begun_s)

    def _why(self, context: flight.ServerCallContext) -> Exception | None:
        http, now_s = self._calls.gateway.settings.http, self._clock.monotonic_s()
        if context.is_cancelled():
            return flight.FlightCancelledError("the client is gone")
        if self._waits_s is not None and now_s - self._waits_s > http.stall_s:
            return Stalled(f"the client neither read nor sent anything for {http.stall_s:g} s")
        longest_s = http.answer_s
        if self.method in _MAY_CHANGE:
            longest_s = max(longest_s, self._calls.gateway.settings.jobs.time_limit_s)
        if now_s - self._begun_s > longest_s:
            return flight.FlightTimedOutError(
                f"the call was not done within {longest_s:g} s: select less, or start a job over "
                "HTTP"
            )
        return None


class Calls(flight.ServerMiddlewareFactory):
    """The calls of one door; safe to share between threads. ``observe`` is called at the end of
    each with a word for how it ended."""

    def __init__(self, gateway: Gateway, observe: Callable[[str], None]) -> None:
        super().__init__()
        self.gateway = gateway
        self._observe = observe
        self._lock = threading.Lock()
        self._running: set[Call] = set()
        self._closing = threading.Event()
        self._act: Callable[[], object] = lambda: None
        self._watch = threading.Thread(target=self._look, name="flight-watch", daemon=True)
        self._watch.start()

    def start_call(
        self, info: flight.CallInfo, headers: Mapping[str, Sequence[object]]
    ) -> Call | None:
        """The call, with a known token. Raises errors of Flight."""
        method = flight.FlightMethod(info.method).name.lower()
        statement = self.gateway.audit.began("flight", request=method)
        try:
            with statement.current():
                sent = {name.lower(): values for name, values in headers.items()}
                return self._begun(info, method, sent, statement)
        except Exception as error:  # noqa: BLE001 - the client gets it
            refused = raised(error)
            audit_failure(statement, refused)
            self._observe(status_of(refused))
            _logger.info("flight refused a call: %s", refused)
            raise refused from None

    def running(self) -> int:
        """How many calls there are."""
        with self._lock:
            return len(self._running)

    def peers(self) -> set[str]:
        """The clients of running calls."""
        with self._lock:
            return {one.peer for one in self._running}

    def often(self, act: Callable[[], object]) -> None:
        """Do this about once a second from now on, as long as calls are watched."""
        self._act = act

    def cancel(self, caller: Caller, ticket: bytes) -> bool:
        """Cancel the calls of a caller that take a ticket; return whether there are any."""
        with self._lock:
            found = [one for one in self._running if one.ticket == ticket and one.caller == caller]
        for call in found:
            call.end(flight.FlightCancelledError("the query was canceled"))
        return bool(found)

    def ended(self, call: Call, status: str, seconds: float) -> None:
        """A call has ended."""
        with self._lock:
            self._running.discard(call)
        self._observe(status)
        _logger.info(
            "flight %s %s",
            call.method,
            status,
            extra={"seconds": round(seconds, 3), "caller": call.caller.name},
        )

    def close(self) -> None:
        """End every call early, and stop to watch."""
        self._closing.set()
        with self._lock:
            running = list(self._running)
        for call in running:
            call.end(Closing(_CLOSING))
        self._watch.join()

    def _begun(
        self,
        info: flight.CallInfo,
        method: str,
        headers: Mapping[str, Sequence[object]],
        statement: Audited,
    ) -> Call:
        given = str((headers.get("authorization") or ("",))[0])
        if info.method == _HANDSHAKE:
            given = _bearer(given)
        if self._closing.is_set():
            raise Problem(503, _CLOSING)
        call = Call(self, caller_of(self.gateway, given), method, headers, statement)
        # A call is in the log if it runs a statement, or fails.
        statement.counts = False
        if info.method == _HANDSHAKE:
            call.answered = given
        with self._lock:
            if len(self._running) >= _MOST:
                raise Problem(429, f"call limit reached ({_MOST} at once); retry in a moment")
            self._running.add(call)
        return call

    def _look(self) -> None:
        looks = 0
        while not self._closing.wait(_LOOK_S):
            with self._lock:
                running = list(self._running)
            for call in running:
                call.look()
            looks += 1
            if looks % _LOOKS_A_SECOND == 0:
                self._act()


def call_of(context: flight.ServerCallContext) -> Call:
    """The call of a context."""
    call: Call = context.get_middleware(NAME)
    return call


def _bearer(header: str) -> str:
    """The bearer token that a Basic header has as its password; the header itself if it is none."""
    kind, _, coded = header.partition(" ")
    if kind.lower() != "basic":
        return header
    try:
        # Some clients leave the padding out.
        padded = coded + "=" * (-len(coded) % 4)
        _, _, password = base64.b64decode(padded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return f"Bearer {password}"
