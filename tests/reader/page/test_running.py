"""The view of running queries: whose it shows, and how one is cancelled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from playwright.sync_api import Page

from blockstore.reader.http.tokens import Scope, Token, hashed
from tests.reader.http.gateways import Served
from tests.reader.page.acts import expect
from tests.reader.page.people import READER, gateway, people, reader
from tests.support.accessible import violations
from tests.support.browser import Visiting

BOSS, OTHER = "bsk_boss", "bsk_other"
SQL = "SELECT p.name,\n  q.age\nFROM people p, people q, range(1000000000)"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tokens = (
        reader(),
        Token(name="boss", sha256=hashed(BOSS), scopes=frozenset({Scope.ADMIN})),
        Token(name="other", sha256=hashed(OTHER), scopes=frozenset({Scope.READ})),
    )
    with gateway(tmp_path_factory.mktemp("running"), tokens=tokens) as made:
        people(made, "people")
        yield made


@contextmanager
def running(served: Served) -> Iterator[Iterator[bytes]]:
    """A query of the reader that runs until it is cancelled; the rest of its response."""
    body = {"sql": SQL}
    with (
        served.as_(READER) as client,
        client.stream("POST", "/v1/query", json=body) as response,
    ):
        pieces = response.iter_raw()
        next(pieces)
        yield pieces


def opened(visit: Visiting, served: Served, token: str, **looks: object) -> Page:
    page = visit(f"{served.url}/assets/0/page/icon.svg", **looks).page
    page.evaluate("(token) => sessionStorage.setItem('blockstore.token', token)", token)
    page.goto(f"{served.url}/#/queries")
    return page


def test_a_query_is_shown_to_its_token_and_its_cancel_ends_it(
    visit: Visiting, served: Served
) -> None:
    with running(served) as rest:
        page = opened(visit, served, READER)
        card = page.locator("[data-query]")
        expect(card).to_have_count(1)
        expect(card.locator("h2")).to_have_text("looks (you)")
        expect(card.locator(".job-sql")).to_have_text(SQL)
        expect(card).to_contain_text("HTTP")
        expect(card).to_contain_text("rows sent")
        expect(page.locator("#view-queries")).to_contain_text("Your queries that run now")
        expect(page.locator("#nav a[aria-current=page]")).to_have_text("Queries")
        button = card.get_by_role("button", name="Cancel the query of looks")
        button.focus()
        page.wait_for_timeout(2_000)
        expect(button).to_be_focused()
        page.keyboard.press("Enter")
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in rest:
                pass
    expect(page.locator("#view-queries")).to_contain_text("No query runs now.")


def test_an_admin_sees_what_others_run_and_another_token_does_not(
    visit: Visiting, served: Served
) -> None:
    with running(served):
        page = opened(visit, served, OTHER)
        expect(page.locator("#view-queries")).to_contain_text("No query runs now.")
        page = opened(visit, served, BOSS)
        expect(page.locator("[data-query] h2")).to_have_text("looks")
        expect(page.locator("#view-queries")).to_contain_text("All queries that run now")
        page.get_by_role("button", name="Cancel the query of looks").click()
        ended = re.compile("cancelled|No query runs now")  # its client may not have noticed yet
        expect(page.locator("#view-queries")).to_contain_text(ended)


@pytest.mark.parametrize("looks", [{"width": 1440}, {"width": 390, "height": 844, "dark": True}])
def test_the_view_fits_a_phone_and_is_for_screen_readers(
    visit: Visiting, served: Served, looks: dict[str, object]
) -> None:
    with running(served):
        page = opened(visit, served, READER, **looks)
        expect(page.locator("[data-query]")).to_have_count(1)
        assert violations(page) == []
        width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert width <= 0
