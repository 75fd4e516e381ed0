"""Which blocks a query would read, over HTTP: against what its plan says, and by which reason."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.clock import SystemClock
from blockstore.reader.doors import picturing
from blockstore.scan.verdicts import verdicts
from tests.reader.http.gateways import DDL, FEW, OTHER, READ, Served, rows_of, serving, settings

SCHEMA = rows_of(range(1)).schema


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Ten blocks of a minute each, of two labels by turns; and a table with a key."""
    folder = tmp_path_factory.mktemp("explain")
    table = bs.create(
        f"{folder}/lake/flights?durable=false", schema=SCHEMA, time_column="time", sort_by=["n"]
    )
    for minute in range(10):
        rows = rows_of(range(minute * 60, minute * 60 + 60))
        table.append(rows, labels={"site": "ab"[minute % 2]})
    table.tag("ten", version=table.snapshot().version)
    keyed = bs.create(
        f"{folder}/lake/stock?durable=false",
        schema=pa.schema([("id", pa.int64()), ("n", pa.int64())]),
        key=["id"],
    )
    keyed.upsert(pa.table({"id": [1, 2, 3], "n": [1, 2, 3]}))
    keyed.upsert(pa.table({"id": [2], "n": [9]}))
    bs.create(f"{folder}/lake/salaries?durable=false", schema=SCHEMA).append(rows_of(range(3)))
    with serving(settings(f"{folder}/lake?durable=false", folder)) as one:
        yield one


def explained(served: Served, sql: str, **more: Any) -> list[dict[str, Any]]:
    answer = served.http.post("/v1/explain", json={"sql": sql, **more})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["tables"]
    return found


def numbers(served: Served, sql: str) -> dict[str, int]:
    """What EXPLAIN says."""
    return {one["what"]: one["number"] for one in served.rows(f"EXPLAIN {sql}")}


TIME = "time >= TIMESTAMPTZ '2026-01-01 00:07:00Z'"


@pytest.mark.parametrize(
    ("where", "verdicts"),
    [
        ("true", {"read": 10}),
        (TIME, {"read": 3, "time": 7}),
        ("site = 'a'", {"read": 5, "labels": 5}),
        ("n = 125", {"read": 1, "statistics": 9}),
        (f"{TIME} AND site = 'a'", {"read": 1, "time": 7, "labels": 2}),
        (
            f"{TIME} AND site = 'b' AND n = 425",
            {"read": 1, "time": 7, "labels": 1, "statistics": 1},
        ),
        ("n < 0", {"statistics": 10}),
    ],
)
def test_each_block_is_read_or_left_out_for_its_reason_as_explain_counts_them(
    served: Served, where: str, verdicts: dict[str, int]
) -> None:
    sql = f"SELECT s FROM flights WHERE {where}"
    (one,) = explained(served, sql)
    assert one["verdicts"] == verdicts
    facts = numbers(served, sql)
    assert facts["blocks to read"] == verdicts.get("read", 0)
    assert facts["chunks to read"] == one["chunks_read"]
    assert facts["bytes of these chunks"] == one["bytes_read"]
    blocks = one["blocks"]
    assert sorted(blocks["verdict"]) == sorted(
        verdict for verdict, number in verdicts.items() for _ in range(number)
    )
    assert sum(blocks["bytes"]) == one["bytes"] >= one["bytes_read"] == sum(blocks["bytes_read"])
    assert sum(blocks["rows"]) == 600
    assert (one["name"], one["key"], one["counted"]) == ("flights", ["n"], False)


def test_the_columns_of_the_condition_are_named(served: Served) -> None:
    (one,) = explained(served, f"SELECT n FROM flights WHERE {TIME} AND n > 3 AND site = 'a'")
    assert sorted(one["condition"]) == ["n", "site", "time"]


def test_each_table_has_a_picture_of_its_own(served: Served) -> None:
    sql = "SELECT 1 FROM flights a JOIN stock b USING (n), flights c WHERE a.n = 5 AND c.n < 130"
    found = {one["name"]: one for one in explained(served, sql)}
    assert set(found) == {"flights", "stock"}
    assert found["flights"]["verdicts"]["read"] >= 3
    assert "read" in found["stock"]["verdicts"]


def test_a_count_that_is_known_reads_nothing(served: Served) -> None:
    (one,) = explained(served, "SELECT count(*) FROM flights")
    assert (one["counted"], one["chunks_read"], one["verdicts"].get("read", 0)) == (True, 0, 0)


def test_versions_parameters_and_earlier_versions_are_those_of_the_query(served: Served) -> None:
    (one,) = explained(served, "SELECT n FROM flights WHERE n = ?", version=2, parameters=[3])
    assert (one["version"], one["verdicts"]) == (2, {"read": 1})
    found = explained(served, "SELECT n FROM flights AT (VERSION => 3)")
    assert [(one["name"], one["version"]) for one in found] == [("flights", 3)]


def test_changes_of_rows_are_read_whatever_the_condition_is(served: Served) -> None:
    (one,) = explained(served, "SELECT n FROM stock WHERE id = 1")
    assert one["verdicts"]["read"] >= 2


def test_what_is_no_query_is_refused_with_its_position(served: Served) -> None:
    for sql, error in (
        ("DELETE FROM flights", "not_a_query"),
        ("SELECT FROM FROM", "invalid_sql"),
    ):
        answer = served.http.post("/v1/explain", json={"sql": sql})
        assert (answer.status_code, answer.json()["error"]) == (400, error), answer.text
    assert served.http.post("/v1/explain", json={"sql": "x", "limit": 1}).status_code == 400


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT nope FROM flights", "nope"),
        ("SELECT n FROM flights WHERE time > TIMESTAMPTZ '2026-01-01' AND nope = 3", "nope"),
        ("SELECT a.nope FROM flights a JOIN stock b USING (n)", "nope"),
        ("SELECT n FROM flights AT (VERSION => 3) ORDER BY nope", "nope"),
        ("SELECT n + s FROM flights", "+"),
        ("SELECT no_such_function(n) FROM flights", "no_such_function"),
        ("SELECT count(*) FROM flights GROUP BY nope", "nope"),
    ],
)
def test_what_a_query_would_be_refused_for_is_refused_in_the_same_words(
    served: Served, sql: str, word: str
) -> None:
    explains = served.http.post("/v1/explain", json={"sql": sql})
    asks = served.query(sql)
    assert (explains.status_code, asks.status_code) == (400, 400), explains.text
    assert word in explains.json()["message"]
    ours, theirs = (dict(one.json()) for one in (explains, asks))
    assert ours.pop("request_id", None) != theirs.pop("request_id", "none")
    assert ours == theirs


def test_an_explanation_is_among_the_running_queries_and_can_be_cancelled(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SystemClock()

    def slow(*given: Any) -> Iterator[Any]:
        for _ in range(600):
            clock.sleep(0.05)
            yield from verdicts(*given)

    monkeypatch.setattr(picturing, "verdicts", slow)
    sql = "SELECT s FROM flights WHERE n = 425 -- slow"

    def running(client: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = client.get("/v1/queries").json()["queries"]
        return found

    with ThreadPoolExecutor(1) as pool, served.as_(OTHER) as other:
        asked = pool.submit(served.http.post, "/v1/explain", json={"sql": sql})
        seen: list[dict[str, Any]] = []
        for _ in range(200):
            seen = running(served.http)
            if [one["state"] for one in seen] == ["running"]:
                break
            clock.sleep(0.05)
        assert [(one["sql"], one["door"], one["state"]) for one in seen] == [
            (sql, "http", "running")
        ]
        assert running(other) == []
        key = seen[0]["id"]
        assert other.delete(f"/v1/queries/{key}").status_code == 404
        assert served.http.delete(f"/v1/queries/{key}").status_code == 200
        answer = asked.result(timeout=60)
    assert (answer.status_code, answer.json()["error"]) == (499, "cancelled"), answer.text
    assert running(served.http) == []


def test_an_explanation_that_is_refused_runs_no_longer(served: Served) -> None:
    served.http.post("/v1/explain", json={"sql": "SELECT nope FROM flights"})
    explained(served, "SELECT s FROM flights")
    assert served.http.get("/v1/queries").json()["queries"] == []


def test_a_token_learns_nothing_of_tables_that_it_may_not_know(served: Served) -> None:
    with served.as_(FEW) as few, served.as_(DDL) as definer:
        hidden = few.post("/v1/explain", json={"sql": "SELECT * FROM salaries"})
        missing = few.post("/v1/explain", json={"sql": "SELECT * FROM salariez"})
        assert hidden.status_code == missing.status_code == 404
        assert hidden.json()["message"].replace("salaries", "X") == missing.json()[
            "message"
        ].replace("salariez", "X")
        assert definer.post("/v1/explain", json={"sql": "SELECT 1"}).status_code == 403
    with served.as_(READ) as reader:
        assert reader.post("/v1/explain", json={"sql": "SELECT 1"}).json() == {"tables": []}


def test_a_picture_of_too_many_blocks_is_refused(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picturing, "MOST_JUDGED", 9)
    answer = served.http.post("/v1/explain", json={"sql": "SELECT s FROM flights WHERE n = 1"})
    assert answer.status_code == 400
    assert "the table flights has 10 blocks, and a picture is made of at most 9" in answer.text
    assert "EXPLAIN" in answer.json()["message"]


def test_of_many_blocks_those_that_are_read_are_listed_first(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picturing, "MOST", 3)
    (one,) = explained(served, "SELECT s FROM flights WHERE n >= 540")
    assert one["blocks"]["verdict"] == ["read", "statistics", "statistics"]
    assert one["verdicts"] == {"read": 1, "statistics": 9}
