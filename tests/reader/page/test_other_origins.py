"""A page of another origin, in a real browser: it asks if it is named, and reads every digit of a
long number as a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error as PlaywrightError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from blockstore.service.serving import Server
from tests.reader.http.gateways import READ, Served, make_lake, serving, settings
from tests.support.asking import HERE
from tests.support.browser import Visiting

ASK = """async ([url, token]) => {
  const asked = await fetch(url + "/v1/query", {
    method: "POST",
    headers: {
      "Authorization": "Bearer " + token,
      "Content-Type": "application/json", "Accept": "application/json;numbers=text",
    },
    body: JSON.stringify({sql: "select 9007199254740993 as n, count(*) as c from flights"}),
  });
  return [await asked.json(), asked.headers.get("X-Blockstore-Versions")];
}"""


@pytest.fixture(scope="module")
def page_of_others() -> Iterator[str]:
    async def page(_: Request) -> HTMLResponse:
        return HTMLResponse("<!doctype html><title>a dashboard</title>")

    with Server(Starlette(routes=[Route("/", page)]), HERE) as server:
        yield server.url


def _asked_from(visit: Visiting, page_of_others: str, served: Served) -> Any:
    made = visit(
        page_of_others, errors=True
    )  # it asks another host, which is what is looked at here
    return made.page.evaluate(ASK, [served.url, READ])


def test_a_page_of_a_named_origin_asks(
    visit: Visiting, page_of_others: str, tmp_path: Path
) -> None:
    asked = settings(make_lake(tmp_path), tmp_path)
    with serving(replace(asked, http=replace(asked.http, origins=(page_of_others,)))) as served:
        rows, versions = _asked_from(visit, page_of_others, served)
    assert rows == [{"n": "9007199254740993", "c": "1000"}]
    assert versions == '{"flights":3}'


def test_a_page_of_another_origin_does_not(
    visit: Visiting, page_of_others: str, tmp_path: Path
) -> None:
    with (
        serving(settings(make_lake(tmp_path), tmp_path)) as served,
        pytest.raises(PlaywrightError, match="Failed to fetch"),
    ):
        _asked_from(visit, page_of_others, served)
