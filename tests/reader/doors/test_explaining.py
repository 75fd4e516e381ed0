"""EXPLAIN at every door: the same numbers, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.reader.http.tokens import Token, hashed
from blockstore.table import Table
from tests.reader.doors.three import Three, three
from tests.reader.http.gateways import DDL, FEW, READ, TOKENS, make_lake, settings

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])
SOME = """MERGE INTO plain USING (VALUES (2, 5), (7, 7)) s(k, n) ON plain.k = s.k
    WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.n)"""


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    folder = tmp_path_factory.mktemp("explaining")
    asked = settings(make_lake(folder), folder)
    table = bs.create(f"{folder}/lake/plain?durable=false", schema=SCHEMA)
    for first in (0, 3):
        table.append(pa.table({"k": [first, first + 1, first + 2], "n": [0, 0, 0]}, schema=SCHEMA))
    with three(asked, folder / "audit.jsonl") as made:
        yield made


def table(doors: Three) -> Table:
    return bs.open(f"{doors.gateway.settings.tables.urls[0].partition('?')[0]}/plain")


def each(doors: Three, sql: str) -> list[dict[str, int]]:
    """What each door says."""
    with doors.served.as_(READ) as http:
        answer = http.post("/v1/query", json={"sql": sql}, headers={"Accept": "application/json"})
    assert answer.status_code == 200, answer.text
    with doors.client(READ) as flight:
        by_flight = flight.query(sql).to_pylist()
    with doors.raw(READ) as raw:
        by_postgres = raw.rows(sql)
    return [
        {one["what"]: one["number"] for one in answer.json()},
        {one["what"]: one["number"] for one in by_flight},
        {str(what): int(number or 0) for what, number in by_postgres},
    ]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("UPDATE plain SET n = 1 WHERE k < 2", {"rows to update": 2, "blocks to write again": 1}),
        ("DELETE FROM plain", {"rows to delete": 6, "blocks to write again": 2}),
        ("TRUNCATE plain", {"rows to delete": 6, "blocks to write again": 2}),
        (SOME, {"rows to delete": 1, "rows to insert": 1, "blocks to write again": 1}),
        ("INSERT INTO plain SELECT * FROM plain", {"rows to insert": 6}),
        ("SELECT * FROM plain WHERE k > 4", {"blocks to read": 1, "blocks left out": 0}),
    ],
)
def test_every_door_says_what_a_statement_would_do(
    doors: Three, sql: str, said: dict[str, int]
) -> None:
    before = table(doors).poll()
    for found in each(doors, f"EXPLAIN {sql}"):
        assert found.items() >= said.items()
        assert found["version of plain"] == 3
    assert table(doors).poll() == before


def test_what_has_no_numbers_is_not_a_query(doors: Three) -> None:
    for sql in ("DROP TABLE plain", "BEGIN; DELETE FROM plain; COMMIT"):
        answer = doors.served.http.post("/v1/query", json={"sql": f"EXPLAIN {sql}"})
        assert answer.status_code == 400
        assert answer.json()["error"] == "not_a_query"


def test_analyze_counts_the_rows_and_parameters_are_values(doors: Three) -> None:
    for found in each(doors, "EXPLAIN ANALYZE SELECT * FROM plain WHERE k > 3"):
        assert found["rows"] == 2
    body: dict[str, Any] = {
        "sql": "EXPLAIN DELETE FROM plain WHERE k = $k",
        "parameters": {"k": 3},
    }
    answer = doors.served.http.post(
        "/v1/query", json=body, headers={"Accept": "application/json"}
    ).json()
    assert {"what": "rows to delete", "number": 1} in answer
    at = {"sql": "EXPLAIN DELETE FROM plain", "version": 2}
    refused = doors.served.http.post("/v1/query", json=at)
    assert "as they are now" in refused.json()["message"]


@pytest.mark.parametrize(("token", "said"), [(FEW, "no table plain"), (DDL, "lacks scope 'read'")])
def test_it_needs_the_scope_and_the_table(doors: Three, token: str, said: str) -> None:
    with doors.served.as_(token) as client:
        for what in ("DELETE FROM plain", "SELECT * FROM plain"):
            answer = client.post("/v1/query", json={"sql": f"EXPLAIN {what}"})
            assert said in answer.json()["message"]


def test_it_takes_one_place_of_its_token_and_gives_it_back(doors: Three) -> None:
    one = Token(name="one", sha256=hashed("bsk_one"), scopes=TOKENS[0].scopes, queries_at_once=1)
    doors.gateway.gate.exchange([*TOKENS, one])
    try:
        with doors.served.as_("bsk_one") as client:
            for _ in range(3):
                answer = client.post("/v1/query", json={"sql": "EXPLAIN DELETE FROM plain"})
                assert answer.status_code == 200, answer.text
                answer = client.post("/v1/query", json={"sql": "EXPLAIN DELETE FROM nowhere"})
                assert answer.status_code == 404
    finally:
        doors.gateway.gate.exchange(TOKENS)


def test_it_ends_with_the_time_of_a_query(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("limited")
    asked = settings(make_lake(folder), folder)
    asked = replace(asked, query=replace(asked.query, time_limit_s=1))
    much = "SELECT sum(a.n * b.n) FROM flights a, flights b, range(9999)"
    slow = f"DELETE FROM flights WHERE n = ({much})"
    with three(asked, folder / "audit.jsonl") as doors:
        answer = doors.served.http.post("/v1/query", json={"sql": f"EXPLAIN {slow}"})
    assert (answer.status_code, answer.json()["error"]) == (504, "timeout")
