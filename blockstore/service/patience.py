"""How long a server waits for a client's next request, and for the whole of its head.

Rules:
- A connection that was idle for ``KEPT_S`` after a response is closed.
- The head of a request arrives whole within ``HEAD_S``, from the connection's first moment, or from
  the first byte after a response. Otherwise the connection is closed.
- A request whose head has come is its application's: that has limits of its own for a body.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

KEPT_S = 75
"""Longer than what stands before it: a balancer, or a client with a pool, keeps a connection for up
to 60 s and would meet the end of this one with its next request."""
HEAD_S = 30.0

_LATE = b"the head of the request did not arrive in time: send it without a pause\n"


class Patient(H11Protocol):
    """One connection of uvicorn's, with a time for the head of each request."""

    head_s = HEAD_S
    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._expect_head()
        else:
            self._head_came()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        """From the first byte on: a client that sends the others one by one gains nothing."""
        if self._head is None:
            self._head = self.loop.call_later(self.head_s, self._late)

    def _head_came(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _late(self) -> None:
        self._head = None
        if self.transport.is_closing():
            return
        if self.conn.trailing_data[0]:
            # A client that sent nothing reads nothing either: it could take this for the response
            # to a request that it sends just now.
            headers = [
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", str(len(_LATE)).encode()),
                (b"connection", b"close"),
            ]
            response = h11.Response(status_code=408, headers=headers, reason=b"Request Timeout")
            for event in (response, h11.Data(data=_LATE), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()


def patient(head_s: float) -> type[Patient]:
    """The connections of a server that waits so long for a head."""
    return type("Patient", (Patient,), {"head_s": head_s})
