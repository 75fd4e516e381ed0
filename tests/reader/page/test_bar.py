"""The console's bar: one line where there is room for one, in every state of it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from starlette.responses import JSONResponse

from tests.reader.page.acts import answered, console, expect, limits, write
from tests.reader.page.pretended import Pretended
from tests.support.browser import Visiting

SQL = "SELECT * FROM flights"


def lines(page: Any) -> int:
    """How many lines the bar's controls take."""
    tops: list[float] = page.locator(".bar").evaluate(
        """(bar) => [...bar.querySelectorAll("button, summary, select")]
        .filter((one) => one.checkVisibility() && !one.closest(".menu-card"))
        .map((one) => one.getBoundingClientRect().top)"""
    )
    return len({round(top / 20) for top in tops})


@pytest.mark.parametrize("width", [1160, 1280, 1440])
@pytest.mark.parametrize("scopes", [["read"], ["read", "write", "ddl"]])
def test_the_bar_takes_one_line_on_a_desk(
    visit: Visiting, url: str, gateway: Pretended, width: int, scopes: list[str]
) -> None:
    gateway.trouble["/v1/whoami"] = lambda request: JSONResponse(
        {"name": "a", "scopes": scopes, "tables": None, "auth": True}
    )
    made = visit(console(url, SQL), width=width)
    page = made.page
    answered(page)
    expect(page.locator("#limits")).to_have_text("Limits: 10,000 rows")
    page.locator("#limits").click()
    expect(page.locator("#ask-above")).to_be_visible(visible="write" in scopes)
    page.locator("#limits").press("Escape")
    limits(page, rows="500000")
    expect(page.locator("#limits")).to_have_text("Limits: 500,000 rows")
    assert lines(page) == 1
    page.locator("#travel").click()
    page.locator("[data-travel=kind]").select_option("as_of")
    page.locator("[data-travel=as_of]").fill("2026-11-28T17:49:20")
    page.locator("#travel").press("Escape")
    assert lines(page) == 1, page.locator("#travel").inner_text()
    assert made.overflow_px() <= 0


def test_the_bar_takes_one_line_while_a_query_runs(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    gateway.gate["SELECT 42"] = threading.Event()
    page = visit(url).page
    write(page, "SELECT 42")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#stop")).to_be_visible()
    try:
        assert lines(page) == 1
    finally:
        gateway.gate["SELECT 42"].set()
    answered(page)


def test_a_long_time_is_cut_in_the_bar_and_complete_for_who_asks(visit: Visiting, url: str) -> None:
    page = visit(console(url, SQL, versions="flights:2,a_table_with_a_long_name:12345")).page
    whole = "flights at 2, a_table_with_a_long_name at 12345"
    expect(page.locator("#travel")).to_contain_text(whole)
    assert page.locator("#travel").get_attribute("title") == whole
    assert lines(page) == 1
