"""The running queries of every door: whose they are, who sees them, and what a cancel does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyarrow import flight

from blockstore.clock import ManualClock
from blockstore.errors import NotFound
from blockstore.reader.audit import AuditLog
from blockstore.reader.http.running_queries import RunningQueries
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.world import World
from tests.reader.doors.three import Three, three
from tests.reader.http.gateways import ADMIN, DDL, OTHER, READ, make_lake, settings
from tests.reader.postgres.raw import SYNC, bind, error_of, execute, frame, parse, until

MARK = "'mine alone'"
SQL = f"SELECT a.s, {MARK} AS mark FROM flights a, flights b, range(1000)"
"""A billion rows: the query still runs when a test looks at it."""


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    folder = tmp_path_factory.mktemp("running")
    with three(settings(make_lake(folder), folder), folder / "audit.jsonl") as made:
        yield made


@pytest.fixture(autouse=True)
def _ends(doors: Three) -> Iterator[None]:
    """Every test leaves nothing that runs."""
    yield
    assert until(lambda: not listed(doors, ADMIN)), listed(doors, ADMIN)


def listed(doors: Three, token: str) -> list[dict[str, Any]]:
    with doors.served.as_(token) as client:
        answer = client.get("/v1/queries")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["queries"]
    return found


def cancelled(doors: Three, token: str, key: str) -> httpx.Response:
    with doors.served.as_(token) as client:
        return client.delete(f"/v1/queries/{key}")


def the_one(doors: Three, door: str) -> dict[str, Any]:
    """The only query, once its rows come."""
    until(lambda: [one["state"] for one in listed(doors, READ)] == ["running"])
    (found,) = listed(doors, READ)
    assert (found["door"], found["by"], found["own"]) == (door, "reader", True)
    assert found["sql"] == SQL
    return found


def taken_all(reader: flight.FlightStreamReader) -> None:
    """Take batches until the end. ``read_all`` raises KeyboardInterrupt for a cancelled stream."""
    while True:
        reader.read_chunk()


def test_a_query_over_http_is_seen_by_its_token_and_admins_and_each_may_cancel_it(
    doors: Three,
) -> None:
    for canceller in (READ, ADMIN):
        with (
            doors.served.as_(READ) as client,
            client.stream("POST", "/v1/query", json={"sql": SQL}) as response,
        ):
            pieces = response.iter_raw()
            taken = next(pieces)
            found = the_one(doors, "http")
            assert found["bytes"] >= len(taken) > 0
            assert found["rows"] > 0
            assert found["seconds"] >= 0
            (as_boss,) = listed(doors, ADMIN)
            assert (as_boss["id"], as_boss["own"], as_boss["sql"]) == (found["id"], False, SQL)
            assert listed(doors, OTHER) == []
            ended = cancelled(doors, canceller, found["id"])
            assert ended.status_code == 200
            assert ended.json()["state"] == "cancelled"
            with pytest.raises(httpx.RemoteProtocolError):
                for _ in pieces:
                    pass
        assert until(lambda: listed(doors, READ) == [])
    lines = [one for one in doors.about(MARK, 2) if one["door"] == "http"]
    assert [one["outcome"] for one in lines] == ["cancelled", "cancelled"], lines
    assert found["id"] in {one["id"] for one in lines}, "the log and the list have one id"


def test_a_query_of_others_and_one_that_never_was_are_the_same_404(doors: Three) -> None:
    with (
        doors.served.as_(READ) as client,
        client.stream("POST", "/v1/query", json={"sql": SQL}) as response,
    ):
        pieces = response.iter_raw()
        next(pieces)
        key = the_one(doors, "http")["id"]
        never = f"{key[:-1]}{'0' if key[-1] != '0' else '1'}"
        answers = [cancelled(doors, OTHER, one) for one in (key, never, "no-ulid")]
        for answer, one in zip(answers, (key, never, "no-ulid"), strict=True):
            assert answer.status_code == 404
            assert answer.json()["message"] == (
                f"there is no running query {one}: it may have ended"
            )
        assert the_one(doors, "http")["state"] == "running"
    assert cancelled(doors, ADMIN, key).status_code in (200, 404)


def test_a_token_that_may_not_read_has_no_list(doors: Three) -> None:
    with doors.served.as_(DDL) as client:
        assert client.get("/v1/queries").status_code == 403
        assert client.delete("/v1/queries/01JD0000000000000000000000").status_code == 403


def test_a_query_that_is_cancelled_before_its_first_row_is_not_sent_again(doors: Three) -> None:
    slow = "SELECT sum(a.n * b.n) AS s FROM flights a, flights b, range(1000000)"
    with ThreadPoolExecutor(1) as pool, doors.served.as_(READ) as client:
        asked = pool.submit(client.post, "/v1/query", json={"sql": slow})
        assert until(lambda: len(listed(doors, READ)) == 1)
        cancelled(doors, READ, listed(doors, READ)[0]["id"])
        answer = asked.result()
    assert (answer.status_code, answer.json()["error"]) == (499, "cancelled"), answer.text
    assert "retry-after" not in answer.headers
    (line,) = doors.about("1000000")
    assert line["outcome"] == "cancelled"


def test_a_query_over_flight_is_cancelled(doors: Three) -> None:
    with doors.client(READ) as client:
        reader = client.stream(SQL)
        reader.read_chunk()
        assert cancelled(doors, READ, the_one(doors, "flight")["id"]).status_code == 200
        with pytest.raises((pa.ArrowException, flight.FlightError)):
            taken_all(reader)


def test_a_query_over_postgres_is_cancelled(doors: Three) -> None:
    with doors.raw(READ) as raw:
        raw.ask("BEGIN")  # its portals stay until it ends
        raw.send(parse(SQL), bind(), execute(10), frame(b"H"))
        key = the_one(doors, "postgres")["id"]
        assert cancelled(doors, READ, key).status_code == 200
        raw.send(execute(), SYNC)
        assert [error_of(body)["C"] for kind, body in raw.until_ready() if kind == "E"] == ["57014"]
        raw.ask("ROLLBACK")


def test_a_query_that_fails_or_is_refused_leaves_nothing(doors: Three) -> None:
    with doors.served.as_(READ) as client:
        for sql in ("SELECT nope FROM flights", "SELECT * FROM nowhere", "SELECT 1/0 FROM"):
            assert client.post("/v1/query", json={"sql": sql}).status_code in (400, 404)
        assert client.post("/v1/query", json={"sql": "SELECT 1"}).status_code == 200
    assert listed(doors, ADMIN) == []


def test_a_cancel_is_audited_and_a_look_is_not(doors: Three) -> None:
    before = len(doors.lines())
    listed(doors, READ)
    assert len(doors.lines()) == before
    cancelled(doors, READ, "01JD0000000000000000000000")
    (line,) = doors.lines()[before:]
    assert line["request"] == "DELETE /v1/queries/01JD0000000000000000000000"
    assert line["token"] == "reader"


ONE = Caller(name="one", fingerprint="1", scopes=frozenset({Scope.READ}))
TWO = Caller(name="one", fingerprint="2", scopes=frozenset({Scope.READ}))


def test_two_callers_of_one_name_do_not_see_each_other_and_no_token_is_in_a_text(
    tmp_path: Path,
) -> None:
    world = World.real()
    queries, log = RunningQueries(world), AuditLog(tmp_path / "a", world)
    statement = log.began("http")
    stopped: list[int] = []
    made = queries.began(ONE, "SELECT 'bsk_secret1'", statement, lambda: stopped.append(1))
    again = queries.began(ONE, "x" * 100_000, statement, lambda: stopped.append(2))
    assert made.key == statement.key
    assert again.key != made.key, "two queries of one statement have two ids"
    assert queries.seen_by(TWO) == []
    with pytest.raises(NotFound):
        queries.cancel(TWO, made.key)
    first, second = queries.seen_by(ONE)
    assert first.sql == "SELECT 'bsk_…'"
    assert len(second.sql) < 10_000
    queries.cancel(ONE, again.key)
    assert stopped == [2]
    queries.runs(again)
    assert [one.progress for one in queries.seen_by(ONE)] == ["starting", "cancelled"]
    for _ in range(2):
        queries.ended(made)
    assert [one.id for one in queries.seen_by(ONE)] == [again.key]
    log.close()


def test_the_seconds_of_a_query_are_those_since_it_began(tmp_path: Path) -> None:
    clock = ManualClock(1_000)
    world = replace(World.real(), clock=clock)
    queries, log = RunningQueries(world), AuditLog(None, world)
    queries.began(ONE, "SELECT 1", log.began("http"), lambda: None)
    clock.advance(2.5)
    (found,) = queries.seen_by(ONE)
    assert (found.began_ms, found.seconds) == (1_000, 2.5)
