"""Responses that no gateway gives, and files that are none: errors of the tree."""

from __future__ import annotations

import http.server
import io
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blockstore.client import Client, RemoteJob
from blockstore.errors import Conflict, Invalid

ELSEWHERE = "http://sign-in.example/"


class Odd(http.server.BaseHTTPRequestHandler):
    """Responds as the server says."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def _respond(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, body, headers = self.server.response  # type: ignore[attr-defined]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    do_GET = do_POST = do_DELETE = do_PATCH = _respond


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Odd) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def client(server: Any) -> Iterator[Client]:
    with Client(f"http://127.0.0.1:{server.server_port}") as client:
        yield client


CALLS: list[Callable[[Client], object]] = [
    lambda client: client.tables(),
    lambda client: client.table("t") or client.fetch("t", [(1, 1)]),
    lambda client: client.history("t"),
    lambda client: client.row("t", 1),
    lambda client: client.row_history("t", 1),
    lambda client: client.fetch("t", [(1, 1)]),
    lambda client: client.put_rows("t", [{"a": 1}]),
    lambda client: client.upload("t", b"a\n1\n"),
    lambda client: client.query_job("select 1"),
    lambda client: client.job("X"),
    lambda client: client.jobs(),
    lambda client: client.sql("select 1").to_arrow(),
    lambda client: client.changes("t", 1).to_arrow(),
]
HTML = {"Content-Type": "text/html"}


@pytest.mark.parametrize(
    "response",
    [
        (301, b"<html>", {"Location": ELSEWHERE}),
        (302, b"", {"Location": ELSEWHERE}),
        (304, b"", {}),
        (200, b"<html>", HTML),
        (200, b"\xff\xfe", HTML),
        (200, b"[]", HTML),
        (200, b"null", HTML),
        (200, b"{}", HTML),
        (204, b"", HTML),
    ],
)
def test_what_no_gateway_responds_with_is_one_sentence(
    server: Any, client: Client, response: Any
) -> None:
    server.response = response
    for call in CALLS:
        with pytest.raises(Invalid, match=f"status {response[0]} is not a gateway's"):
            call(client)


def test_a_redirect_is_neither_followed_nor_saved(
    server: Any, client: Client, tmp_path: Path
) -> None:
    server.response = (302, b"<html>", {"Location": ELSEWHERE})
    job = RemoteJob(client._wire, {"id": "X", "state": "done"})
    with pytest.raises(Invalid, match=rf"and names {ELSEWHERE}: check the address"):
        job.save(tmp_path / "result")
    assert not list(tmp_path.iterdir())


def test_a_conflict_without_rows_that_are_known_is_one(server: Any, client: Client) -> None:
    body = {"message": "odd", "detail": {"rows": [{"row": 1}, 2]}}
    server.response = (409, json.dumps(body).encode(), {})
    with pytest.raises(Conflict, match="odd"):
        client.tables()


def test_bytes_of_any_kind_are_uploaded_and_texts_are_refused(
    server: Any, client: Client, tmp_path: Path
) -> None:
    server.response = (202, b'{"id": "X", "state": "queued"}', {})
    for data in (b"a\n1\n", bytearray(b"a\n1\n"), memoryview(b"a\n1\n"), io.BytesIO(b"a\n1\n")):
        assert client.upload("t", data).id == "X"  # type: ignore[arg-type]
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n")
    with path.open() as text, pytest.raises(Invalid, match=r"is open as text, expected .* 'rb'"):
        client.upload("t", text)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="is int, expected a path"):
        client.upload("t", 5)  # type: ignore[arg-type]


class Texts:
    """A wrapper of a file that is open as text, as ``tempfile`` makes."""

    def __init__(self) -> None:
        self._file = io.StringIO("a\n1\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_wrapper_of_a_text_is_refused(server: Any, client: Client) -> None:
    server.response = (202, b'{"id": "X", "state": "queued"}', {})
    with pytest.raises(Invalid, match="is open as text"):
        client.upload("t", Texts())  # type: ignore[arg-type]
