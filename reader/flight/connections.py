"""The connections of clients at the port of this door. gRPC accepts them without a limit, and
pyarrow does not offer to set one.

Rules:
- Beyond this door's share of the files that the process may open, connections without a call are
  shut down, those first that were there longest: a client of gRPC connects again by itself. Those
  of running calls stay: ``calls.py`` has their limit.
- A look costs a listing of the process's open files, and more only where these are many.
- A number of a file may be another file's a moment later: each is looked at through a copy.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress

from blockstore.service.connections import ConnectionCounts, share

_logger = logging.getLogger(__name__)
_OPEN_FILES = "/dev/fd"
_SPARE = 2
"""Files that a look needs: the listing, and a copy."""


def hang_up(port: int) -> None:
    """Shut down every connection at a port. pyarrow waits for a call whose client takes nothing,
    without end, and does not offer to cancel it; gRPC ends the calls of a connection that is
    gone."""
    for number in _numbers():
        with suppress(OSError), _copied(number) as one:
            if _peer(one, port):
                one.shutdown(socket.SHUT_RDWR)


class Connections:
    """The connections of a port, with a limit. ``busy`` returns the peers of running calls, as gRPC
    writes them. For one thread, but for ``counts``."""

    def __init__(
        self, port: int, busy: Callable[[], Set[str]], most: Callable[[], int] = share
    ) -> None:
        self._port = port
        self._busy = busy
        self._most = most
        self._looks = 0
        self._seen: dict[str, int] = {}
        self._spare: list[int] = []
        self._used = self._ended = 0
        self._keep_spare()

    def counts(self) -> ConnectionCounts:
        """The connections as they are now, and how many were shut down; for any thread. Where no
        file can be opened, those of the last time."""
        with suppress(OSError):
            self._used = len(_connected(self._port, _numbers()))
        return ConnectionCounts(used=self._used, limit=self._most(), refused=self._ended)

    def look(self) -> int:
        """Shut down connections without a call where there are too many; return how many."""
        # Where no file can be opened any more, it is by these that it can be changed.
        self.close()
        try:
            return self._look()
        except OSError as error:
            _logger.warning("the connections at the Flight SQL port cannot be counted: %s", error)
            return 0
        finally:
            self._keep_spare()

    def close(self) -> None:
        """Release the files that are kept for a look."""
        while self._spare:
            os.close(self._spare.pop())

    def _keep_spare(self) -> None:
        with suppress(OSError):
            while len(self._spare) < _SPARE:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def _look(self) -> int:
        limit = self._most()
        numbers = _numbers()
        if len(numbers) <= limit:
            return 0
        found = _connected(self._port, numbers)
        self._looks += 1
        self._seen = {peer: self._seen.get(peer, self._looks) for peer in found.values()}
        busy = self._busy()
        idle = [(self._seen[peer], number) for number, peer in found.items() if peer not in busy]
        ended = 0
        for _, number in sorted(idle)[: max(0, len(found) - limit)]:
            with suppress(OSError), _copied(number) as one:
                if _peer(one, self._port) == found[number]:
                    one.shutdown(socket.SHUT_RDWR)
                    ended += 1
        self._ended += ended
        if ended:
            _logger.warning(
                "connection limit reached at the Flight SQL port (%d): %d without a call were "
                "closed",
                limit,
                ended,
            )
        return ended


def _connected(port: int, numbers: list[int]) -> dict[int, str]:
    """Those of the numbers that are connections at a port, with their clients."""
    found = {}
    for number in numbers:
        with suppress(OSError), _copied(number) as one:
            if peer := _peer(one, port):
                found[number] = peer
    return found


def _numbers() -> list[int]:
    return [int(name) for name in os.listdir(_OPEN_FILES)]


@contextmanager
def _copied(number: int) -> Iterator[socket.socket]:
    """The socket of a number. Raises OSError if it is none, or closed."""
    copy = os.dup(number)
    try:
        made = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with made:
        yield made


def _peer(one: socket.socket, port: int) -> str:
    """The client of a connection at a port, as gRPC writes it; empty for another socket. Raises
    OSError for one that is not connected."""
    if one.family not in (socket.AF_INET, socket.AF_INET6) or one.getsockname()[1] != port:
        return ""
    host, number = one.getpeername()[:2]
    if one.family == socket.AF_INET:
        return f"ipv4:{host}:{number}"
    mapped = host.removeprefix("::ffff:")
    return f"ipv4:{mapped}:{number}" if "." in mapped else f"ipv6:%5B{host}%5D:{number}"
