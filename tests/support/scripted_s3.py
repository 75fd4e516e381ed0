"""An HTTP server that answers what a test tells it to: for what no well-behaved store does on
demand.

It knows nothing of S3: each request takes the next scripted answer, the last one for ever. It shows
how often a client really asked, and with which headers.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Answer", "Scripted", "scripted_s3"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer;

    ``reset`` closes the connection instead, ``silent`` says nothing until the server ends,
    ``hangs_up`` closes it after the answer, without having said so.
    """

    status: int = 200
    code: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    claimed_length: int | None = None
    reset: bool = False
    silent: bool = False
    hangs_up: bool = False

    def payload(self) -> bytes:
        if not self.code:
            return self.body
        return f"<Error><Code>{self.code}</Code><Message>so it is</Message></Error>".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client asked."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Scripted:
    """The running server: its endpoint, what it will answer and what it was asked."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.answers: list[Answer] = []
        self.requests: list[Request] = []
        self.ended = threading.Event()
        self._lock = threading.Lock()

    def script(self, *answers: Answer) -> None:
        """Answer so from now on, and forget what was asked; who still waits for a silent answer is
        let go."""
        self.ended.set()
        with self._lock:
            self.ended = threading.Event()
            self.answers = list(answers)
            self.requests = []

    def next_answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def scripted_s3() -> Iterator[Scripted]:
    """A server on a free port of this machine."""
    scripted = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            request = Request(
                method=self.command,
                path=self.path,
                headers=dict(self.headers),
                body=self.rfile.read(length),
            )
            ended = scripted.ended
            answer = scripted.next_answer(request)
            if answer.silent:
                ended.wait()
            if answer.reset or answer.silent:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            payload = answer.payload()
            self.send_response_only(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            claimed = len(payload) if answer.claimed_length is None else answer.claimed_length
            if answer.status not in {204, 304}:
                self.send_header("Content-Length", str(claimed))
            if answer.claimed_length is not None:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            if self.command != "HEAD" and answer.status not in {204, 304}:
                self.wfile.write(payload)
            self.close_connection |= answer.hangs_up

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    scripted.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield scripted
    finally:
        scripted.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
