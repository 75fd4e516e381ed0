"""How many connections a door of a process accepts, by the files that the process may open.

Rules:
- A process raises its limit of open files to the highest that it may set, once, at its start.
- A door takes at most ``MOST`` connections, and at most a quarter of the files that the process may
  open: whatever comes to one door, the others, queries and the store have theirs.
- A connection beyond that is refused at once. It never waits.
"""

from __future__ import annotations

import logging
import resource
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_logger = logging.getLogger(__name__)

MOST = 4_096
"""So many connections a door takes, if the process may open four times as many files."""
_SHARES = 4
_HIGHEST = 1 << 20
"""Where there is no limit, a process sets this one: some systems refuse a larger."""
_REFUSED_AT_ONCE = 64
"""After so many, the clients that are connected have their turn."""


def raise_limit() -> int:
    """Let this process open as many files as it may; return how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _HIGHEST if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return _open_files()


def share(most: int = MOST) -> int:
    """How many connections a door may have."""
    return max(1, min(most, _open_files() // _SHARES))


def _open_files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _HIGHEST if soft == resource.RLIM_INFINITY else soft


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionCounts:
    """The connections of one door, for its metrics."""

    used: int = 0
    limit: int = 0
    """How many there may be now; 0 for a door that is closed."""
    refused: int = 0
    """How many were refused, or shut down, because of the limit; since the start."""


class Accepting(socket.socket):
    """A listening socket that accepts as many connections at once as ``most`` returns. Others get
    ``refusal``, and are closed."""

    def __init__(
        self, listening: socket.socket, refusal: bytes, most: Callable[[], int] = share
    ) -> None:
        super().__init__(
            listening.family, listening.type, listening.proto, fileno=listening.detach()
        )
        self._most = most
        self._refusal = refusal
        self._lock = threading.Lock()
        self._refuses = False
        self.connected = 0
        """How many there are now, with those whose TLS has not begun."""
        self._refused = 0

    @property
    def counts(self) -> ConnectionCounts:
        """The connections as they are now."""
        return ConnectionCounts(used=self.connected, limit=self._most(), refused=self._refused)

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection that is not refused. Raises BlockingIOError without one."""
        for _ in range(_REFUSED_AT_ONCE):
            number, address = self._accept()  # type: ignore[attr-defined]
            made = _Accepted(self, number)
            if self._takes():
                made.counted = True
                return made, address
            self._refuse(made)
        raise BlockingIOError

    def left(self) -> None:
        """A connection that was counted is closed."""
        with self._lock:
            self.connected -= 1

    def _takes(self) -> bool:
        most = self._most()
        with self._lock:
            takes = self.connected < most
            self.connected += takes
            self._refused += not takes
            begins = not takes and not self._refuses
            self._refuses = not takes
        if begins:
            _logger.warning("connection limit reached (%d): others are refused", most)
        return takes

    def _refuse(self, made: socket.socket) -> None:
        with made, suppress(OSError):
            made.setblocking(False)
            made.send(self._refusal)
            # To close while bytes are unread resets the connection, and loses the refusal.
            made.shutdown(socket.SHUT_WR)
            made.recv(1 << 16)


class _Accepted(socket.socket):
    """A connection that says when it is closed."""

    def __init__(self, listening: Accepting, number: int) -> None:
        super().__init__(listening.family, listening.type, listening.proto, fileno=number)
        self._listening = listening
        self.counted = False

    def close(self) -> None:
        """Close it; allowed twice."""
        super().close()
        if self.counted:
            self.counted = False
            self._listening.left()
