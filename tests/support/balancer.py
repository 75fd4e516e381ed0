"""A small TCP balancer: each connection goes to the next backend that takes it."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

Address = tuple[str, int]


class Balancer:
    """It knows nothing of HTTP. A backend that refuses is passed over; one that dies ends its
    connections."""

    def __init__(self, backends: Sequence[Address]) -> None:
        self.backends = list(backends)
        self._turn = itertools.count()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._listening.settimeout(0.2)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._wires: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def run(self) -> None:
        """Accept until ``close``."""
        with self._listening:
            self._accept()

    def _accept(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                client, _ = self._listening.accept()
                self._begin(self._between, client)

    def close(self) -> None:
        self._over.set()
        with self._lock:
            wires = list(self._wires)
        for wire in wires:
            _end(wire)
        for thread in self._threads:
            thread.join(10)

    def _begin(self, call, *given) -> None:  # type: ignore[no-untyped-def]
        thread = threading.Thread(target=call, args=given, daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _between(self, client: socket.socket) -> None:
        backend = self._connected()
        if backend is None:
            client.close()
            return
        with self._lock:
            self._wires |= {client, backend}
        back = threading.Thread(target=_copy, args=(backend, client), daemon=True)
        back.start()
        _copy(client, backend)
        back.join()
        with self._lock:
            self._wires -= {client, backend}
        client.close()
        backend.close()

    def _connected(self) -> socket.socket | None:
        backends = list(self.backends)
        first = next(self._turn)
        for place in range(len(backends)):
            with contextlib.suppress(OSError):
                wire = socket.create_connection(backends[(first + place) % len(backends)], 2)
                wire.settimeout(None)
                return wire
        return None


def _copy(source: socket.socket, sink: socket.socket) -> None:
    """Copy to the end of the source; an error ends both, as it would for a client."""
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        _end(source)
        _end(sink)


def _end(wire: socket.socket) -> None:
    with contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)


@contextmanager
def balanced(backends: Sequence[Address]) -> Iterator[Balancer]:
    """A balancer, until the end of the block; its ``backends`` may be changed."""
    made = Balancer(backends)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.close()
        thread.join(10)
