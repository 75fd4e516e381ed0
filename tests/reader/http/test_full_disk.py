"""A gateway whose disk for temporary files is full says so, asks for another try, and goes on with
other queries."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from blockstore.reader.settings import QuerySettings
from tests.reader.http.gateways import WRITE, Served, make_lake, serving, settings

SPILLS = "select r, hash(r) as h from range(20000000) t(r) order by h"
LARGE = "select a.n, b.s from flights a, flights b"
TOLD = "the disk for temporary files is full"


@pytest.fixture(scope="module", params=[False, True], ids=["in process", "isolated"])
def small(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Served]:
    """A gateway that may spill 1 GiB, on a disk of 3 MiB."""
    folder = tmp_path_factory.mktemp("small")
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system may be mounted here")
    query = QuerySettings(
        memory_bytes=64 << 20, spill_bytes=1 << 30, threads=1, at_once=1, isolated=request.param
    )
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(disk))
            with serving(settings(make_lake(folder), folder, query=query)) as one:
                yield one
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_query_that_spills_is_503_and_others_are_answered(small: Served) -> None:
    answer = small.query(SPILLS)
    assert answer.status_code == 503, answer.text
    assert answer.headers["retry-after"]
    told = answer.json()
    assert told["error"] == "unavailable"
    assert told["message"].startswith(TOLD)
    assert "TMPDIR" in told["message"]
    assert "blockstore-spill" not in told["message"], "the gateway's folders are nobody's business"
    assert small.rows("select count(*) as c from flights") == [{"c": 1000}]
    assert small.rows("select sum(n) as s from flights") == [{"s": 499_500}]


def test_an_answer_by_http_1_0_that_does_not_fit_is_503(small: Served) -> None:
    head, _, body = _by_http_1_0(small, LARGE).partition(b"\r\n\r\n")
    assert b" 503 " in head.splitlines()[0], head
    assert json.loads(body)["message"].startswith(TOLD)
    assert small.rows("select count(*) as c from flights") == [{"c": 1000}]


def _by_http_1_0(served: Served, sql: str) -> bytes:
    place = urlsplit(served.url)
    body = json.dumps({"sql": sql}).encode()
    head = (
        f"POST /v1/query HTTP/1.0\r\nHost: {place.netloc}\r\nAuthorization: Bearer "
        f"{WRITE}\r\nAccept: text/csv\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=60) as wire:
        wire.sendall(head.encode() + body)
        with wire.makefile("rb") as answer:
            return answer.read()


def test_the_disk_is_the_small_one(small: Served) -> None:
    """Else nothing above is what it says."""
    assert Path(tempfile.gettempdir()).name == "disk"
