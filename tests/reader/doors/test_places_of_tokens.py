"""``queries_at_once`` holds for all that needs the engine: queries, jobs and changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.reader.http.gateways import ADMIN, FEW, READ, TOKENS, make_lake, settings
from tests.reader.postgres.raw import Doors, both, error_of, query, until

SLOW = "SELECT count(*) AS c FROM range(1000000000000) a(i) WHERE hash(i) = 1"
INTO = (
    "INSERT INTO flights SELECT TIMESTAMPTZ '2026-01-01 00:00:00Z', i, 'x' "
    "FROM range(1000000000000) a(i) WHERE hash(i) = 1"
)
ONE = tuple(replace(one, queries_at_once=1) if one.name == "few" else one for one in TOKENS)


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("places")
    with both(settings(make_lake(folder), folder, tokens=ONE)) as made:
        yield made


def taken(own: Doors) -> int:
    gateway = own.served.gateway
    return gateway.quotas.taken(gateway.gate.caller(f"Bearer {FEW}"))


def listed(own: Doors) -> list[dict[str, str]]:
    with own.served.as_(ADMIN) as boss:
        found: list[dict[str, str]] = boss.get("/v1/queries").json()["queries"]
    return found


def test_jobs_of_a_token_take_its_places_and_wait_for_one(own: Doors) -> None:
    engine = own.served.gateway.engine
    with own.served.as_(FEW) as few:
        jobs = [few.post("/v1/jobs", json={"kind": "query", "sql": SLOW}).json()["id"]]
        assert until(lambda: engine.running() == 1)
        for _ in range(2):
            jobs.append(few.post("/v1/statements?wait=0", json={"sql": INTO}).json()["id"])
        assert few.post("/v1/query", json={"sql": "SELECT 1"}).status_code == 429
        assert own.served.query("SELECT 1 AS a").status_code == 200
        assert (engine.running(), taken(own)) == (1, 1)
        states = [few.get(f"/v1/jobs/{one}").json()["state"] for one in jobs]
        assert states == ["running", "queued", "queued"]
        few.delete(f"/v1/jobs/{jobs[0]}")
        assert until(lambda: few.get(f"/v1/jobs/{jobs[1]}").json()["state"] == "running")
        for one in jobs:
            few.delete(f"/v1/jobs/{one}")
        assert until(lambda: taken(own) == 0)


def test_a_change_in_a_transaction_takes_a_place_and_is_listed_and_cancelled(own: Doors) -> None:
    one, other = own.client(FEW), own.client(FEW)
    one.ask("BEGIN")
    one.send(query(INTO))
    assert until(lambda: [found["door"] for found in listed(own)] == ["postgres"])
    other.ask("BEGIN")
    assert other.fails("DELETE FROM flights")["C"] == "53300"
    with own.client(READ) as reader:
        assert reader.rows("SELECT 1") == [["1"]]
    with own.served.as_(ADMIN) as boss:
        assert boss.delete(f"/v1/queries/{listed(own)[0]['id']}").status_code == 200
    errors = [error_of(body) for kind, body in one.until_ready() if kind == "E"]
    assert [found["C"] for found in errors] == ["57014"]
    assert (taken(own), listed(own)) == (0, [])


def test_a_change_with_returning_ends_at_its_timeout(own: Doors) -> None:
    one = own.client(FEW)
    one.ask("SET statement_timeout = '500ms'")
    assert one.fails(f"{INTO} RETURNING n")["C"] == "57014"
    assert taken(own) == 0
