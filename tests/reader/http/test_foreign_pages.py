"""Pages of the web do not reach a gateway that asks for no token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from blockstore.reader.peers import PeerSettings
from blockstore.reader.peers.address import Address
from tests.reader.http.gateways import Served, client_of, make_lake, serving, settings

EVIL, DASHBOARD = "http://evil.example:8080", "https://dashboards.example"
FORM = {"name": "planted", "schema": {"type": "struct", "fields": []}}
CHANGES = [
    ("POST", "/v1/query", {"json": {"sql": "FROM salaries"}}),
    ("POST", "/v1/tables/salaries/undrop", {}),
    ("POST", "/v1/tables/salaries/files?name=a", {"content": b"a"}),
    ("DELETE", "/v1/tables/salaries", {}),
    ("POST", "/iceberg/v1/namespaces/lake/tables", {"json": FORM}),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("pages")
    asked = settings(make_lake(folder), folder, tokens=())
    with serving(replace(asked, http=replace(asked.http, origins=(DASHBOARD,)))) as one:
        one.gateway.tables.poll_now()
        yield one


def asks(served: Served, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with client_of(served.url, named) as http:
        return http.post("/v1/query", json={"sql": "SELECT 1 AS a"})


@pytest.mark.parametrize(("method", "path", "more"), CHANGES)
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:8080", "Origin": EVIL, "Sec-Fetch-Site": "same-origin"},
        {"Host": "evil.example:8080"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    ],
)
def test_a_page_of_the_web_is_refused(
    served: Served, headers: dict[str, str], method: str, path: str, more: dict[str, object]
) -> None:
    with client_of(served.url, headers) as http:
        found = http.request(method, path, **more)  # type: ignore[arg-type]
    assert found.status_code == 403, found.text
    assert "a gateway without tokens" in found.json()["message"]
    assert "salaries" in served.gateway.tables.names()


def test_a_page_that_leads_here_reads_nothing(served: Served) -> None:
    for path in ("/", "/v1/tables", "/metrics", "/docs", "/iceberg/v1/config"):
        with client_of(served.url, {"Host": "evil.example"}) as http:
            assert http.get(path).status_code == 403, path


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9000", "127.0.0.1:80", "127.0.0.2", "[::1]:8080", "[::1]"]
)
def test_this_machine_is_answered_by_each_of_its_names(served: Served, host: str) -> None:
    assert asks(served, Host=host).status_code == 200
    own = asks(served, Host=host, Origin=f"http://{host.lower()}", Sec_Fetch_Site="same-origin")
    assert own.status_code == 200
    assert asks(served, Host=host, Origin="null", Sec_Fetch_Site="same-origin").status_code == 200
    assert asks(served, Host=host, Origin="http://localhost:3000").status_code == 403


@pytest.mark.parametrize(
    "host",
    ["localhost.evil.example", "127.0.0.1.evil.example", "[::2]", "10.0.0.1", ":"],
)
def test_what_only_looks_like_it_is_not(served: Served, host: str) -> None:
    assert asks(served, Host=host).status_code in (400, 403)


def test_an_origin_that_is_named_is_answered(served: Served) -> None:
    found = asks(served, Origin=DASHBOARD, Sec_Fetch_Site="cross-site")
    assert found.status_code == 200
    assert found.headers["access-control-allow-origin"] == DASHBOARD
    assert asks(served, Host="dashboards.example", Origin=DASHBOARD).status_code == 200


def test_the_group_of_a_gateway_asks_it_by_its_name(tmp_path: Path) -> None:
    own = Address("http", "gateways.internal", 8080)
    group = PeerSettings(own=own, urls=(own,), plain_http=True)
    with serving(settings(make_lake(tmp_path), tmp_path, tokens=(), peers=group)) as one:
        assert asks(one, Host="gateways.internal:8080").status_code == 200
        assert asks(one, Host="evil.example:8080").status_code == 403


def test_a_link_to_the_page_is_followed(served: Served) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    with client_of(served.url, link) as http:
        assert http.get("/").status_code == 200


def test_where_a_token_is_needed_a_page_does_not_have_it(tmp_path: Path) -> None:
    with serving(settings(make_lake(tmp_path), tmp_path)) as one:
        token = one.http.headers["authorization"]
        assert asks(one, Host="lake.example", Authorization=token).status_code == 200
        assert asks(one, Host="evil.example").status_code == 401


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded; charset=utf-8"])
def test_the_iceberg_catalog_takes_no_text_for_json(served: Served, kind: str) -> None:
    path, sent = "/iceberg/v1/namespaces/lake/tables", {"Content-Type": kind}
    found = served.http.post(path, content=b"{}", headers=sent)
    assert (found.status_code, "expected application/json" in found.text) == (415, True)
    assert served.http.post(f"{path}/flights", content=b"{}", headers=sent).status_code == 415
