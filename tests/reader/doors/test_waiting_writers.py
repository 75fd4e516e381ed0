"""What waits takes nothing from what could run: writers with open jobs, reads of a slow store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from blockstore.reader.http import streaming, table_routes
from tests.reader.http.gateways import FEW, READ, make_lake, settings
from tests.reader.postgres.raw import Doors, both, query, until

SLOW = (
    "INSERT INTO flights SELECT TIMESTAMPTZ '2026-01-01 00:00:00Z', i, 'x' "
    "FROM range(1000000000000) a(i) WHERE hash(i) = 1"
)
ROW = "INSERT INTO salaries VALUES (TIMESTAMPTZ '2026-01-01 00:00:00Z', 1, 'w')"
THREADS, WRITERS = 3, 6


@pytest.fixture
def own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Doors]:
    """A gateway with few threads, all of whose places for changes are taken."""
    monkeypatch.setattr(streaming, "_THREADS", THREADS)
    folder = tmp_path_factory.mktemp("waiting")
    with both(settings(make_lake(folder), folder)) as made, made.served.as_(FEW) as few:
        jobs = [
            few.post("/v1/statements?wait=0", json={"sql": SLOW}).json()["id"] for _ in range(2)
        ]
        runner = made.served.gateway.need_jobs().runner
        assert until(lambda: runner.running == 2)
        yield made
        for job in jobs:
            few.delete(f"/v1/jobs/{job}")


def freed(own: Doors) -> None:
    """The places are free again."""
    with own.served.as_(FEW) as few:
        for job in few.get("/v1/jobs").json()["jobs"]:
            if job["state"] == "running":
                few.delete(f"/v1/jobs/{job['id']}")


def test_writers_of_postgres_that_wait_stop_no_query(own: Doors) -> None:
    writers = [own.client() for _ in range(WRITERS)]
    for one in writers:
        one.send(query(ROW))
    jobs = own.served.gateway.need_jobs()
    assert until(lambda: len(jobs.runner.endings._calls) == WRITERS)
    with own.client(READ) as reader:
        assert reader.rows("SELECT 1") == [["1"]]
    freed(own)
    for one in writers:
        assert one.until_ready()[0] == ("C", b"INSERT 0 1\0")
    assert jobs.runner.endings._calls == {}


def test_a_writer_of_postgres_that_waits_is_cancelled(own: Doors) -> None:
    one = own.client()
    one.ask("SET statement_timeout = '500ms'")
    assert one.fails(ROW)["C"] == "57014"
    freed(own)
    assert one.rows("SELECT count(*) FROM salaries") == [["10"]]


def test_writers_of_http_that_wait_stop_no_query(own: Doors) -> None:
    def write(_: int) -> Any:
        with own.served.as_(None) as client:
            headers = {"Authorization": own.served.http.headers["authorization"]}
            return client.post("/v1/statements?wait=60", json={"sql": ROW}, headers=headers)

    jobs = own.served.gateway.need_jobs()
    with ThreadPoolExecutor(WRITERS) as pool:
        found = pool.map(write, range(WRITERS))
        assert until(lambda: len(jobs.runner.endings._calls) == WRITERS)
        assert own.served.query("SELECT 1 AS a").status_code == 200
        freed(own)
        assert [one.json()["state"] for one in found] == ["done"] * WRITERS


def test_a_writer_of_http_has_its_state_after_its_time(own: Doors) -> None:
    answer = own.served.http.post("/v1/statements?wait=1", json={"sql": ROW})
    assert (answer.status_code, answer.json()["state"]) == (202, "queued")


def test_reads_of_a_slow_store_hold_up_neither_probes_nor_queries(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, over = threading.Semaphore(0), threading.Event()
    real = table_routes._handle

    def handle(*given: Any) -> Any:
        slow.release()
        over.wait(60)
        return real(*given)

    monkeypatch.setattr(table_routes, "_handle", handle)
    folder = tmp_path_factory.mktemp("slow")
    with both(settings(make_lake(folder), folder)) as own, ThreadPoolExecutor(50) as pool:

        def tags(_: int) -> int:
            with own.served.as_(READ) as client:
                return client.get("/v1/tables/flights/tags").status_code

        found = pool.map(tags, range(50))
        try:
            for _ in range(40):
                assert slow.acquire(timeout=30)
            http = own.served.http
            for path in ("/-/healthy", "/-/ready", "/v1/whoami", "/v1/queries", "/"):
                assert http.get(path, timeout=20).status_code == 200
            with own.served.as_("bsk_nobody") as stranger:
                assert stranger.get("/v1/tables", timeout=20).status_code == 401
            assert own.served.query("SELECT 1 AS a").status_code == 200
        finally:
            over.set()
        assert list(found) == [200] * 50
