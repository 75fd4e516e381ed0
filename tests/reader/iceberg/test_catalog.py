"""The Iceberg REST catalog: its requests, who may send them, and what it refuses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

import blockstore as bs
from blockstore.export.exported import Exported, Memo
from blockstore.export.iceberg.export import export_iceberg
from blockstore.reader.iceberg.catalog import Catalog
from blockstore.reader.iceberg.commits.commit import Commits
from blockstore.reader.tables import Tables
from tests.reader.http.gateways import (
    FEW,
    READ,
    SCHEMA,
    WRITE,
    Served,
    make_lake,
    rows_of,
    serving,
    settings,
)
from tests.support.examples import few

FLIGHTS = "/iceberg/v1/namespaces/lake/tables/flights"
ROUTES = [
    ("GET", "/iceberg/v1/config"),
    ("GET", "/iceberg/v1/namespaces"),
    ("GET", "/iceberg/v1/namespaces/lake"),
    ("HEAD", "/iceberg/v1/namespaces/lake"),
    ("GET", "/iceberg/v1/namespaces/lake/tables"),
    ("GET", FLIGHTS),
    ("HEAD", FLIGHTS),
    ("POST", FLIGHTS),
    ("POST", "/iceberg/v1/namespaces/lake/tables"),
    ("DELETE", FLIGHTS),
    ("POST", f"{FLIGHTS}/metrics"),
]
CHANGES = [
    ("POST", "/iceberg/v1/namespaces"),
    ("DELETE", "/iceberg/v1/namespaces/lake"),
    ("POST", "/iceberg/v1/namespaces/lake/properties"),
    ("POST", "/iceberg/v1/namespaces/lake/register"),
    ("POST", "/iceberg/v1/tables/rename"),
    ("POST", "/iceberg/v1/transactions/commit"),
    ("POST", "/iceberg/v1/namespaces/lake/views"),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """For tests that change nothing."""
    folder = tmp_path_factory.mktemp("catalog")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    """For a test that changes its tables."""
    with serving(settings(make_lake(tmp_path), tmp_path)) as one:
        yield one


@pytest.fixture(scope="module")
def http(served: Served) -> Iterator[httpx.Client]:
    with served.as_(READ) as client:
        yield client


def wrong(response: httpx.Response) -> tuple[int, str]:
    """Status and type of an error, which says both in its body."""
    error = response.json()["error"]
    assert set(error) == {"message", "type", "code"}
    assert error["code"] == response.status_code
    return response.status_code, error["type"]


def test_the_document_names_the_routes_that_ask_for_a_token(served: Served) -> None:
    document = served.http.get("/iceberg/openapi.json").json()
    reported = {
        (
            method.upper(),
            "/iceberg" + path.replace("{namespace}", "lake").replace("{table}", "flights"),
        )
        for path, operations in document["paths"].items()
        for method in operations
    }
    assert reported - set(ROUTES) == {("POST", "/iceberg/v1/oauth/tokens")}
    assert reported >= set(ROUTES)


@pytest.mark.parametrize("token", [None, "wrong"])
def test_an_unknown_token_is_401(served: Served, token: str | None) -> None:
    with served.as_(token) as client:
        for method, path in (*ROUTES, *CHANGES):
            answer = client.request(method, path)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"] == "Bearer"
            if method != "HEAD":
                assert wrong(answer) == (401, "NotAuthorizedException")


def test_an_engine_finds_namespaces_tables_and_metadata(http: httpx.Client) -> None:
    answered = http.get("/iceberg/v1/config").json()["endpoints"]
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in answered
    assert not [one for one in answered if one.startswith("PUT") or "views" in one]
    assert http.get("/iceberg/v1/namespaces").json()["namespaces"] == [["lake"]]
    assert http.get("/iceberg/v1/namespaces", params={"parent": "lake"}).json()["namespaces"] == []
    assert http.get("/iceberg/v1/namespaces/lake").json() == {
        "namespace": ["lake"],
        "properties": {},
    }
    assert http.head("/iceberg/v1/namespaces/lake").status_code == 204
    listed = http.get("/iceberg/v1/namespaces/lake/tables").json()["identifiers"]
    assert listed == [{"namespace": ["lake"], "name": name} for name in ("flights", "salaries")]
    assert http.head(FLIGHTS).status_code == 204
    loaded = http.get(FLIGHTS)
    body = loaded.json()
    assert json.loads(_file(body["metadata-location"]).read_bytes()) == body["metadata"]
    assert body["metadata"]["snapshots"][-1]["summary"]["total-records"] == "1000"
    assert body["config"] == {}
    again = http.get(FLIGHTS, headers={"If-None-Match": loaded.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_table_that_changes_is_exported_again(own: Served) -> None:
    before = own.http.get(FLIGHTS).json()["metadata"]
    handle = own.gateway.tables.table("flights")
    handle.append(rows_of(range(1_000, 1_010)))
    handle.tag("then")
    own.gateway.tables.poll_now("flights")
    now = own.http.get(FLIGHTS).json()["metadata"]
    assert now["current-snapshot-id"] > before["current-snapshot-id"]
    assert now["refs"]["then"]["type"] == "tag"
    assert now["snapshots"][-1]["summary"]["total-records"] == "1010"
    assert now["table-uuid"] == before["table-uuid"]


def test_versions_that_were_loaded_before_are_ancestors_with_rows_of_their_own(
    own: Served,
) -> None:
    url = own.gateway.tables.table("flights").url
    first = own.http.get(FLIGHTS).json()["metadata"]["current-snapshot-id"]
    for number in range(3):
        bs.open(url).append(rows_of(range(5000 + number, 5001 + number)))
        own.gateway.tables.poll_now()
        own.http.get(FLIGHTS)
    found = own.http.get(FLIGHTS).json()["metadata"]["snapshots"]
    assert [one["snapshot-id"] for one in found] == [first, first + 1, first + 2, first + 3]
    assert [one.get("parent-snapshot-id") for one in found] == [None, first, first + 1, first + 2]
    assert [int(one["summary"]["total-records"]) for one in found] == [1000, 1001, 1002, 1003]
    assert len({one["manifest-list"] for one in found}) == 4


def test_a_table_of_the_same_name_is_another_table(own: Served) -> None:
    before = own.http.get(FLIGHTS).json()["metadata"]
    url = own.gateway.tables.table("flights").url
    bs.drop(url)
    bs.create(url, schema=SCHEMA)
    own.gateway.tables.poll_now()
    now = own.http.get(FLIGHTS).json()["metadata"]
    assert now["snapshots"][-1]["summary"]["total-records"] == "0"
    assert now["table-uuid"] != before["table-uuid"]


def test_a_token_of_some_tables_never_learns_of_others(served: Served) -> None:
    with served.as_(FEW) as client:
        listed = client.get("/iceberg/v1/namespaces/lake/tables").json()["identifiers"]
        assert [one["name"] for one in listed] == ["flights"]
        hidden = client.get("/iceberg/v1/namespaces/lake/tables/salaries")
        unknown = client.get("/iceberg/v1/namespaces/lake/tables/nothing")
    assert wrong(hidden) == wrong(unknown) == (404, "NoSuchTableException")
    assert hidden.text.replace("salaries", "") == unknown.text.replace("nothing", "")


@pytest.mark.parametrize(
    "name", ["...", "%2e%2e%2f", "a%2Fb", "flights%00", "FLIGHTS", "é", "x" * 900, "flights%3Fx"]
)
def test_odd_names_are_404(http: httpx.Client, name: str) -> None:
    assert http.get(f"/iceberg/v1/namespaces/lake/tables/{name}").status_code == 404
    assert http.get(f"/iceberg/v1/namespaces/{name}/tables").status_code == 404


def test_other_namespaces_are_404(http: httpx.Client) -> None:
    for path in ("x", "x/tables", "x/tables/flights"):
        found = http.get(f"/iceberg/v1/namespaces/{path}")
        assert wrong(found) == (404, "NoSuchNamespaceException")
        assert "the namespaces are lake" in found.json()["error"]["message"]


def test_what_would_change_something_is_refused(served: Served, http: httpx.Client) -> None:
    versions = [view.version for view in served.gateway.tables.views()]
    for method, path in CHANGES:
        answer = http.request(method, path, json={} if method == "POST" else None)
        assert wrong(answer) == (406, "UnsupportedOperationException")
    served.gateway.tables.poll_now()
    assert [view.version for view in served.gateway.tables.views()] == versions


def test_a_secret_is_exchanged_for_the_token(served: Served) -> None:
    def asked(**form: str) -> httpx.Response:
        with served.as_(None) as anonymous:
            return anonymous.post("/iceberg/v1/oauth/tokens", data=form)

    given = asked(grant_type="client_credentials", client_id="me", client_secret=READ)
    assert given.json()["access_token"] == READ
    assert given.json()["token_type"] == "bearer"
    exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
    assert asked(grant_type=exchange, subject_token=READ).json()["access_token"] == READ
    refused = asked(grant_type="client_credentials", client_secret="wrong")
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    for form in ({}, {"grant_type": "password", "client_secret": READ}):
        refused = asked(**form)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (b"&".join(b"%x=1" % n for n in range(17)), "more than 16 fields"),
        (b"client_secret=" + b"%41" * 30_000, "more than 65,536 bytes"),
    ],
)
def test_a_form_of_a_stranger_is_small(served: Served, form: bytes, why: str) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    with served.as_(None) as anonymous:
        found = anonymous.post("/iceberg/v1/oauth/tokens", content=form, headers=kind)
    assert (found.status_code, found.json()["error"]) == (400, "invalid_request")
    assert why in found.json()["error_description"]


def test_a_report_of_a_scan_is_counted(http: httpx.Client) -> None:
    assert http.post(f"{FLIGHTS}/metrics", json={"report-type": "scan-report"}).status_code == 204
    assert "blockstore_iceberg_reports_total 1.0" in http.get("/metrics").text


def test_a_type_that_iceberg_lacks_is_400_with_the_column(own: Served, tmp_path: Path) -> None:
    bs.create(f"{tmp_path}/lake/odd", schema=pa.schema([("big", pa.uint64())]))
    own.gateway.tables.poll_now()
    answer = own.http.get("/iceberg/v1/namespaces/lake/tables/odd")
    assert wrong(answer) == (400, "BadRequestException")
    assert "big" in answer.json()["error"]["message"]


def test_many_engines_that_ask_at_once_get_one_export(tmp_path: Path) -> None:
    tables = Tables([make_lake(tmp_path)])
    tables.poll_now()
    exports: list[str] = []
    together = threading.Barrier(8)

    def export(table: bs.Table, memo: Memo) -> Exported:
        exports.append(table.url)
        return export_iceberg(table, memo)

    catalog = Catalog(tables, Commits(scratch=lambda: tmp_path / "scratch"), export)

    def load(_: int) -> int:
        together.wait()
        return catalog.load("lake", "flights", None).version

    with ThreadPoolExecutor(8) as pool:
        versions = set(pool.map(load, range(8)))
    assert len(versions) == len(exports) == 1


def test_the_document_is_kept_to_whatever_is_sent(served: Served) -> None:
    schema = schemathesis.openapi.from_url(f"{served.url}/iceberg/openapi.json")
    operations = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        operations += 1

        @hypothesis(
            max_examples=few(10),
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def send(case: Any) -> None:
            answer = case.call(
                base_url=f"{served.url}/iceberg",
                headers={"Authorization": f"Bearer {WRITE}"},
                timeout=60,
            )
            case.validate_response(
                answer,
                checks=[not_a_server_error, status_code_conformance, response_schema_conformance],
            )

        send()
    assert operations == len(ROUTES) + 1


def _file(url: str) -> Path:
    assert url.startswith("file://")
    return Path(url.removeprefix("file://"))
