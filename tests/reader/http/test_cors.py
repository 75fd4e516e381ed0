"""Pages of other origins: none may ask, unless the configuration names where they come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from blockstore.errors import Invalid
from blockstore.reader.settings import load_settings
from tests.reader.http.gateways import READ, Served, make_lake, serving, settings

DASHBOARD, STRANGER = "https://dashboards.example", "https://dashboards.example.evil"
ASKS = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}


@pytest.fixture(scope="module")
def open_to_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("cors")
    asked = settings(make_lake(folder), folder)
    with serving(replace(asked, http=replace(asked.http, origins=(DASHBOARD,)))) as one:
        yield one


def preflight(served: Served, origin: str, **more: str) -> httpx.Response:
    with served.as_(None) as http:  # a browser sends no token with it
        return http.options("/v1/query", headers={"Origin": origin, **ASKS, **more})


def test_a_named_origin_may_ask_and_read_the_headers(open_to_one: Served) -> None:
    may = preflight(open_to_one, DASHBOARD)
    assert may.status_code == 200, may.text
    assert may.headers["access-control-allow-origin"] == DASHBOARD
    assert "POST" in may.headers["access-control-allow-methods"]
    assert {"authorization", "content-type"} <= {
        one.strip().lower() for one in may.headers["access-control-allow-headers"].split(",")
    }
    assert "access-control-allow-credentials" not in may.headers
    answer = open_to_one.http.post(
        "/v1/query",
        json={"sql": "select count(*) as c from flights"},
        headers={"Origin": DASHBOARD, "Accept": "application/json"},
    )
    assert answer.json() == [{"c": 1000}]
    assert answer.headers["access-control-allow-origin"] == DASHBOARD
    assert "x-blockstore-versions" in answer.headers["access-control-expose-headers"].lower()
    assert {"Accept", "Origin"} <= {one.strip() for one in answer.headers["vary"].split(",")}


@pytest.mark.parametrize("method", ["PUT", "TRACE"])
def test_other_methods_are_not_allowed(open_to_one: Served, method: str) -> None:
    assert (
        preflight(open_to_one, DASHBOARD, **{"Access-Control-Request-Method": method}).status_code
        == 400
    )


def test_a_deletion_and_an_upload_are_allowed(open_to_one: Served) -> None:
    ends = preflight(open_to_one, DASHBOARD, **{"Access-Control-Request-Method": "DELETE"})
    brings = preflight(
        open_to_one, DASHBOARD, **{"Access-Control-Request-Headers": "idempotency-key"}
    )
    assert (ends.status_code, brings.status_code) == (200, 200)


def test_errors_can_be_read_by_a_named_origin(open_to_one: Served) -> None:
    with open_to_one.as_(None) as http:
        refused = http.get("/v1/tables", headers={"Origin": DASHBOARD})
        large = http.post("/v1/query", content=b"x" * (2 << 20), headers={"Origin": DASHBOARD})
    for answer, status in ((refused, 401), (large, 413)):
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == DASHBOARD


def test_other_origins_are_reported_nothing(open_to_one: Served) -> None:
    for origin in (STRANGER, "null", "http://dashboards.example"):
        may = preflight(open_to_one, origin)
        assert may.status_code == 400
        assert "access-control-allow-origin" not in may.headers
        with open_to_one.as_(READ) as http:
            answer = http.get("/v1/tables", headers={"Origin": origin})
        assert "access-control-allow-origin" not in answer.headers


def test_without_the_setting_no_origin_may(tmp_path: Path) -> None:
    with serving(settings(make_lake(tmp_path), tmp_path)) as closed:
        may = preflight(closed, DASHBOARD)
        assert may.status_code == 405
        answer = closed.http.get("/v1/tables", headers={"Origin": DASHBOARD})
        assert "access-control-allow-origin" not in {*may.headers, *answer.headers}


def test_the_setting_takes_origins_and_nothing_else() -> None:
    found = load_settings(None, {"BLOCKSTORE_HTTP_ORIGINS": f"{DASHBOARD},http://localhost:3000"})
    assert found.http.origins == (DASHBOARD, "http://localhost:3000")
    assert load_settings(None, {}).http.origins == ()
    for wrong in (
        "*",
        "null",
        "dashboards.example",
        f"{DASHBOARD}/",
        f"{DASHBOARD}/path",
        "ftp://x",
        "https://",
        "https://*.example",
        "https://me@dashboards.example",
        "https://Dashboards.example",
        "https://x:port",
        "https://x:443",
    ):
        with pytest.raises(Invalid, match="origins"):
            load_settings(None, {"BLOCKSTORE_HTTP_ORIGINS": wrong})
