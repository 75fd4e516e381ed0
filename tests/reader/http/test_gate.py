"""Tokens: who may do what, and what a token of some tables never learns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blockstore.errors import Invalid
from blockstore.ids import Ids
from blockstore.reader.http.gate import Gate
from blockstore.reader.http.problems import Refusal
from blockstore.reader.http.tokens import Scope, Token, fresh, hashed
from blockstore.world import World
from tests.reader.http.gateways import (
    ADMIN,
    DDL,
    FEW,
    OTHER,
    READ,
    WRITE,
    Served,
    csv_of,
    serving,
    settings,
    until_ended,
)

ROUTES = [
    ("GET", "/v1/tables"),
    ("POST", "/v1/tables"),
    ("PATCH", "/v1/tables/flights"),
    ("DELETE", "/v1/tables/flights"),
    ("POST", "/v1/tables/flights/undrop"),
    ("POST", "/v1/tables/flights/rows"),
    ("PATCH", "/v1/tables/flights/rows"),
    ("DELETE", "/v1/tables/flights/rows"),
    ("POST", "/v1/tables/flights/rows/fetch"),
    ("GET", "/v1/tables/flights/rows/1"),
    ("GET", "/v1/tables/flights/rows/1/history"),
    ("POST", "/v1/tables/flights/files?name=f"),
    ("GET", "/v1/tables/flights/rows/1/files/doc"),
    ("HEAD", "/v1/tables/flights/rows/1/files/doc"),
    ("GET", "/v1/whoami"),
    ("GET", "/v1/tables/flights"),
    ("GET", "/v1/tables/flights/blocks"),
    ("GET", "/v1/tables/flights/history"),
    ("GET", "/v1/tables/flights/changes?after=0"),
    ("GET", "/v1/tables/flights/diff?from=1&to=2"),
    ("GET", "/v1/tables/flights/tags"),
    ("GET", "/v1/tables/flights/statistics"),
    ("GET", "/v1/tables/flights/timeline"),
    ("POST", "/v1/query"),
    ("POST", "/v1/explain"),
    ("GET", "/v1/queries"),
    ("DELETE", "/v1/queries/01JD0000000000000000000000"),
    ("POST", "/v1/statements"),
    ("POST", "/v1/jobs"),
    ("GET", "/v1/jobs"),
    ("GET", "/v1/jobs/01JD0000000000000000000000"),
    ("DELETE", "/v1/jobs/01JD0000000000000000000000"),
    ("GET", "/v1/jobs/01JD0000000000000000000000/result"),
    ("GET", "/metrics"),
]


@pytest.mark.parametrize("token", [None, "x", "wrong", READ[:-1], READ + "x", hashed(READ), "é"])
def test_an_unknown_token_is_401_everywhere(served: Served, token: str | None) -> None:
    for method, path in ROUTES:
        headers = {} if token is None else {"Authorization": f"Bearer {token}".encode("latin-1")}
        with served.as_(None) as anonymous:
            answer = anonymous.request(
                method,
                path,
                headers=headers,
                json={"sql": "select 1"} if method == "POST" else None,
            )
        assert answer.status_code == 401, (path, answer.text)
        assert answer.headers["www-authenticate"] == "Bearer"
        if method != "HEAD":
            assert answer.json()["error"] == "unauthorized"


def test_every_route_of_the_document_is_among_those_that_ask_for_a_token(served: Served) -> None:
    document = served.http.get("/openapi.json").json()
    reported = {
        (
            method.upper(),
            path.replace("{table}", "flights")
            .replace("{row}", "1")
            .replace("{column}", "doc")
            .replace("{job}", "01JD0000000000000000000000")
            .replace("{query}", "01JD0000000000000000000000"),
        )
        for path, operations in document["paths"].items()
        for method in operations
    }
    known = {(method, path.partition("?")[0]) for method, path in ROUTES}
    assert reported - known == {("GET", "/v1/tables/flights/timeline/block")}


def test_pages_documents_and_probes_need_no_token_and_hold_no_data(served: Served) -> None:
    with served.as_(None) as anonymous:
        for path in ("/", "/docs", "/docs/style.css", "/openapi.json", "/-/healthy", "/-/ready"):
            answer = anonymous.get(path)
            assert answer.status_code == 200, path
            assert "salaries" not in answer.text
        page = anonymous.get("/docs").text
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "<script" not in page
    assert "/v1/query" in page


@pytest.mark.parametrize(
    ("token", "method", "path", "status"),
    [
        (READ, "POST", "/v1/jobs?table=flights", 403),
        (READ, "GET", "/metrics", 200),
        (FEW, "GET", "/metrics", 403),
        (OTHER, "DELETE", "/v1/tables/flights", 403),
        (OTHER, "POST", "/v1/tables/flights/undrop", 403),
        (DDL, "POST", "/v1/jobs?table=flights", 403),
        (DDL, "GET", "/v1/tables", 403),
        (ADMIN, "GET", "/v1/tables", 200),
    ],
)
def test_a_scope_that_is_missing_is_403(
    served: Served, token: str, method: str, path: str, status: int
) -> None:
    with served.as_(token) as client:
        answer = client.request(
            method, path, content=csv_of(range(1)), headers={"Content-Type": "text/csv"}
        )
        assert answer.status_code == status, answer.text


def test_a_token_of_some_tables_learns_of_no_other_and_missing_and_hidden_are_reported_alike(
    served: Served,
) -> None:
    with served.as_(FEW) as few:
        answers = [few.get("/v1/tables"), few.get("/v1/whoami"), few.get("/v1/jobs")]
        pairs = [
            [
                few.post("/v1/query", json={"sql": f"select * from {name}"}),
                few.post(
                    "/v1/query", json={"sql": f'select * from flights join "{name}" using (n)'}
                ),
                few.get(f"/v1/tables/{name}"),
                few.get(f"/v1/tables/{name}/blocks"),
                few.get(f"/v1/tables/{name}/history"),
                few.get(f"/v1/tables/{name}/diff?from=1&to=2"),
                few.get(f"/v1/tables/{name}/tags"),
                few.get(f"/v1/tables/{name}/timeline"),
                few.post("/v1/jobs", json={"kind": "download", "table": name}),
                few.post(
                    f"/v1/jobs?table={name}", content="n\n", headers={"Content-Type": "text/csv"}
                ),
            ]
            for name in ("salaries", "salariez")
        ]
        near = few.post("/v1/query", json={"sql": "select * from salarie"})
        assert (
            few.post("/v1/query", json={"sql": "select count(*) from flights"}).status_code == 200
        )
    for hidden, missing in zip(*pairs, strict=True):
        assert hidden.status_code == missing.status_code == 404, (hidden.text, missing.text)
        reported = [json.loads(one.text) for one in (hidden, missing)]
        for one in reported:
            one.pop("request_id")
        assert json.dumps(reported[0]).replace("salaries", "X") == json.dumps(reported[1]).replace(
            "salariez", "X"
        )
    assert near.json()["nearest"] == []
    assert "salaries" not in near.text
    assert all("salaries" not in answer.text for answer in answers)


def test_a_job_reads_what_its_asker_may_read_and_no_other_caller_sees_it(served: Served) -> None:
    with served.as_(FEW) as few, served.as_(ADMIN) as boss:
        asked = few.post("/v1/jobs", json={"kind": "query", "sql": "select * from salaries"})
        assert asked.status_code == 202
        job = asked.json()["id"]
        ended = until_ended(few, job)
        assert ended["state"] == "failed"
        assert "did you mean" not in str(ended["error"])
        mine = few.post(
            "/v1/jobs", json={"kind": "query", "sql": "select count(*) as c from flights"}
        ).json()["id"]
        assert until_ended(few, mine)["state"] == "done"
        assert few.get(f"/v1/jobs/{mine}/result").text == '"c"\n1000\n'
        with served.as_(READ) as stranger:
            for path in (f"/v1/jobs/{mine}", f"/v1/jobs/{mine}/result"):
                assert stranger.get(path).status_code == 404
            assert stranger.delete(f"/v1/jobs/{mine}").status_code == 404
            assert mine not in stranger.get("/v1/jobs").text
        assert mine in boss.get("/v1/jobs").text


def test_the_metrics_tell_every_series_from_the_start(served: Served) -> None:
    text = served.http.get("/metrics").text
    for name in (
        "blockstore_http_requests_total",
        "blockstore_table_staleness_seconds",
        "blockstore_queries_running",
        'blockstore_connections{door="flight"} 0.0',
        'blockstore_connections_limit{door="postgres"} 0.0',
        'blockstore_connections_refused_total{door="http"} 0.0',
        "blockstore_job_events_total",
        "blockstore_bucket_requests_total",
        "blockstore_cache_used_bytes",
        "blockstore_boundary_refusals_total",
    ):
        assert name in text, name
    assert 'status="5xx"' in text


def test_without_tokens_everybody_is_let_in(tmp_path: Path, served: Served) -> None:
    url = served.gateway.settings.tables.urls[0]
    with serving(settings(url, tmp_path, tokens=())) as open_one:
        assert open_one.http.get("/v1/whoami").json()["auth"] is False
        assert open_one.rows("select count(*) as c from flights") == [{"c": 1000}]


def test_tokens_are_long_hashed_and_compared_whole() -> None:
    ids = Ids(World.real().clock)
    made = {fresh(ids) for _ in range(50)}
    assert len(made) == 50
    assert all(len(one) == len("bsk_") + 64 for one in made)
    token = Token(name="a", sha256=hashed(WRITE), scopes=frozenset({Scope.READ}))
    gate = Gate([token], World.real().clock)
    assert gate.caller(f"Bearer {WRITE}") == token.caller
    assert gate.caller(f"bearer   {WRITE} ") == token.caller
    for wrong in (
        None,
        "",
        WRITE,
        f"Basic {WRITE}",
        "Bearer",
        f"Bearer {WRITE}x",
        f"Bearer {token.sha256}",
    ):
        with pytest.raises(Refusal, match="missing or unknown"):
            gate.caller(wrong)
    assert WRITE not in repr(gate.caller(f"Bearer {WRITE}"))


@pytest.mark.parametrize(
    "fields",
    [
        {"sha256": "abc"},
        {"scopes": frozenset()},
        {"scopes": frozenset({Scope.ADMIN}), "tables": frozenset({"a"})},
    ],
)
def test_a_token_that_cannot_be_meant_is_refused(fields: dict[str, object]) -> None:
    good: dict[str, object] = {
        "name": "a",
        "sha256": hashed(READ),
        "scopes": frozenset({Scope.READ}),
    }
    with pytest.raises(Invalid):
        Token(**{**good, **fields})  # type: ignore[arg-type]
