"""A small HTTP server for tests of the proxy: objects in memory, and some odd answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Objects", "running"]


class Objects(ThreadingHTTPServer):
    """Holds what was put, and the ``Host`` of each request."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.hosts: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Objects

    def do_GET(self) -> None:
        self.server.hosts.append(self.headers["Host"])
        data = self.server.objects.get(self.path)
        if self.path == "/chunked":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\nTrailer: 1\r\n\r\n")
        elif self.path == "/short":
            self.send_response(200)
            self.send_header("Content-Length", "10")
            self.end_headers()
            self.wfile.write(b"four")
            self.close_connection = True
        else:
            self._respond(404 if data is None else 200, data or b"")

    def do_HEAD(self) -> None:
        self._respond(200, self.server.objects[self.path])

    def do_PUT(self) -> None:
        self.server.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._respond(200, b"")

    def handle_expect_100(self) -> bool:
        if self.path == "/refused":
            self.close_connection = True
            self._respond(412, b"")
            return False
        done = super().handle_expect_100()
        self.wfile.flush()
        return done

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _respond(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@contextmanager
def running() -> Iterator[Objects]:
    """Run the server in threads of this process."""
    with Objects() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
