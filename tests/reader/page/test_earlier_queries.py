"""Earlier queries come back: by the browser's Back, and by the list that this browser keeps."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.reader.page.acts import answered, cell, console, expect, run, write
from tests.reader.page.pretended import Pretended
from tests.support.accessible import violations
from tests.support.browser import Visiting

ONE, TWO, THREE = "SELECT 1 AS one", "SELECT 2 AS two", "SELECT 3 AS three"


def kept(page: Page) -> list[str]:
    """The queries that the list offers, after it was opened."""
    page.locator("#recent").click()
    return page.locator(".recent-list button").all_text_contents()


def test_back_goes_from_query_to_query_and_forward_again(visit: Visiting, url: str) -> None:
    page = visit(url).page
    for sql, shown in ((ONE, "1"), (TWO, "2"), (THREE, "3")):
        run(page, sql)
        expect(cell(page, 0, 0)).to_have_text(shown)
    for sql, shown in ((TWO, "2"), (ONE, "1")):
        page.go_back()
        expect(cell(page, 0, 0)).to_have_text(shown)
        expect(page.locator("#editor .cm-content")).to_have_text(sql)
    page.go_forward()
    expect(cell(page, 0, 0)).to_have_text("2")


def test_what_is_typed_between_two_queries_is_one_step_of_back(visit: Visiting, url: str) -> None:
    page = visit(url).page
    run(page, ONE)
    before: int = page.evaluate("history.length")
    page.locator("#editor .cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type(", 2 AS two, 3 AS three")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    expect(cell(page, 0, 2)).to_have_text("3")
    assert page.evaluate("history.length") == before + 1


def test_back_leaves_the_console_for_the_view_before(visit: Visiting, url: str) -> None:
    page = visit(f"{url}#/tables").page
    page.get_by_role("link", name="Console", exact=True).click()
    run(page, ONE)
    page.get_by_role("link", name="Tables", exact=True).click()
    page.get_by_role("link", name="Console", exact=True).click()
    expect(cell(page, 0, 0)).to_have_text("1")
    for _ in range(3):
        page.go_back()
    expect(page.locator("#view-tables")).to_be_visible()


def test_the_list_has_each_query_once_the_newest_first_and_survives_a_new_page(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(url).page
    for sql in (ONE, TWO, ONE):
        run(page, sql)
    assert kept(page) == [ONE, TWO]
    page.goto("about:blank")
    page.goto(url)
    asked = len(gateway.asked)
    assert kept(page) == [ONE, TWO]
    page.locator(".recent-list button", has_text="two").click()
    expect(page.locator("#editor .cm-content")).to_have_text(TWO)
    expect(page.locator("#editor .cm-content")).to_be_focused()
    assert len(gateway.asked) == asked, "the list only fills the editor"
    page.keyboard.press("Control+Enter")
    answered(page)
    assert kept(page) == [TWO, ONE]


def test_a_query_that_failed_is_in_the_list_and_one_that_is_written_over_is_not_lost(
    visit: Visiting, url: str
) -> None:
    page = visit(url, errors=True).page
    write(page, "SELECT wrong")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#answer .failure")).to_be_visible()
    assert kept(page) == ["SELECT wrong"]


def test_the_list_is_short_and_is_forgotten_on_demand_and_with_the_token(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(console(url, ONE)).page
    answered(page)
    page.evaluate(
        """() => localStorage.setItem("blockstore.queries", JSON.stringify(
            Array.from({ length: 500 }, (_, n) => `SELECT ${n}`)))"""
    )
    run(page, TWO)
    found = kept(page)
    assert (found[0], len(found)) == (TWO, 50)
    page.get_by_role("button", name="Forget all").click()
    expect(page.locator(".recent-list")).to_contain_text("No queries yet")
    assert page.evaluate("localStorage.getItem('blockstore.queries')") is None
    page.keyboard.press("Escape")
    run(page, THREE)
    page.locator("#token").click()
    page.get_by_role("button", name="Forget token").click()
    assert kept(page) == []


def test_a_damaged_list_is_an_empty_one(visit: Visiting, url: str) -> None:
    page = visit(url).page
    for damage in ("{", "7", '[1, {"a": 2}]'):
        page.evaluate("(text) => localStorage.setItem('blockstore.queries', text)", damage)
        assert kept(page) == []
        page.keyboard.press("Escape")


def test_the_list_fits_a_phone_and_is_for_screen_readers(visit: Visiting, url: str) -> None:
    made = visit(url, width=390, height=844)
    page = made.page
    for sql in (ONE, f"SELECT '{'long ' * 100}' AS text"):
        run(page, sql)
    assert len(kept(page)) == 2
    box = page.locator(".recent .menu-card").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert made.overflow_px() == 0
    assert violations(page) == []
