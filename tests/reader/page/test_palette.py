"""Everything that has a name is found by keys alone, and queries are kept under names."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.reader.page.acts import answered, cell, console, expect, run, run_js, write
from tests.reader.page.pretended import Pretended, flights
from tests.support.browser import Visiting

ONE, TWO = "SELECT 1 AS one", "SELECT 2 AS two"


def find(page: Page, text: str) -> None:
    """Open the palette and type."""
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Go to a table")).to_be_focused()
    page.keyboard.type(text)


def options(page: Page) -> list[str]:
    return page.locator("#palette-list li").all_text_contents()


def save(page: Page, name: str) -> None:
    page.locator("#saved").click()
    page.get_by_label("Name of this query").fill(name)
    page.keyboard.press("Enter")
    expect(page.locator(".kept[open] [role=status]")).to_have_text(f"Saved as {name}.")
    page.keyboard.press("Escape")


def names(page: Page) -> list[str]:
    page.locator("#saved").click()
    found = page.locator(".saved-list button:first-child").all_text_contents()
    page.keyboard.press("Escape")
    return found


def test_a_query_is_saved_by_name_and_comes_back_in_a_new_page(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(url).page
    write(page, ONE)
    page.keyboard.press("Escape")
    save(page, "weekly <b>")
    write(page, TWO)
    page.keyboard.press("Escape")
    save(page, "a two")
    assert names(page) == ["a two", "weekly <b>"]
    page.goto("about:blank")
    page.goto(url)
    asked = len(gateway.asked)
    page.locator("#saved").click()
    page.locator(".saved-list button", has_text="weekly").first.click()
    expect(page.locator("#editor .cm-content")).to_have_text(ONE)
    expect(page.locator("#editor .cm-content")).to_be_focused()
    assert len(gateway.asked) == asked, "the list only fills the editor"


def test_a_name_that_exists_is_replaced_and_one_is_removed(visit: Visiting, url: str) -> None:
    page = visit(url).page
    for sql in (ONE, TWO):
        write(page, sql)
        page.keyboard.press("Escape")
        page.locator("#saved").click()
        page.get_by_label("Name of this query").fill("mine")
        label = "Save" if sql == ONE else "Replace"
        page.get_by_role("button", name=label, exact=True).click()
        page.keyboard.press("Escape")
    assert run_js(page, "saved.js", "return m.saved()") == [["mine", TWO]]
    page.locator("#saved").click()
    page.get_by_role("button", name="Remove mine").click()
    expect(page.locator(".saved-list")).to_contain_text("No saved queries yet")


def test_what_cannot_be_saved_is_said(visit: Visiting, url: str) -> None:
    page = visit(url).page
    page.locator("#saved").click()
    page.get_by_label("Name of this query").fill("nothing")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".kept[open] [role=status]")).to_contain_text("The editor is empty")
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full'); }; }")
    assert "nothing was saved" in run_js(page, "saved.js", "return m.saveQuery('a', 'b')")
    for damage in ("{", "7", '[["a"], 1, {"a": 2}, ["b", 3]]'):
        page.evaluate(
            "(text) => { localStorage['blockstore.saved'] = text; }",
            damage,
        )
        assert run_js(page, "saved.js", "return m.saved()") == []


def test_a_download_has_the_name_of_the_saved_query(visit: Visiting, url: str) -> None:
    page = visit(console(url, "SELECT carrier FROM flights")).page
    answered(page)
    save(page, "my carriers")
    page.locator("#download").click()
    with page.expect_download() as waiting:
        page.locator("[data-form=csv]").click()
    assert waiting.value.suggested_filename == "my-carriers.csv"


def test_views_tables_and_saved_queries_are_found_by_keys(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    gateway.versions["airports"] = [flights(3)]
    page = visit(url).page
    write(page, ONE)
    page.keyboard.press("Escape")
    save(page, "delays of flights")
    expect(page.locator(".side-list summary")).to_have_count(2)
    write(page, TWO)  # the keys work in the editor too
    find(page, "flig")
    assert options(page) == [
        "flights Table",
        "flights Rows of a table",
        "delays of flights Saved query",
    ]
    active = page.get_by_role("combobox", name="Go to a table")
    expect(active).to_have_attribute("aria-activedescendant", "palette-0")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#palette-list [aria-selected=true]")).to_have_text(
        "delays of flights Saved query"
    )
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="flights")).to_be_visible()
    find(page, "saved del")
    page.keyboard.press("Enter")
    expect(page.locator("#editor .cm-content")).to_have_text(ONE)
    expect(page.locator("#editor .cm-content")).to_be_focused()
    find(page, "jobs")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Jobs")).to_be_visible()
    find(page, "run the")
    page.keyboard.press("Enter")
    answered(page)
    expect(cell(page, 0, 0)).to_have_text("1")


def test_actions_are_done_and_escape_does_nothing(visit: Visiting, url: str) -> None:
    page = visit(url).page
    run(page, ONE)
    find(page, "dark")
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    find(page, "save the")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name of this query")).to_be_focused()
    page.keyboard.press("Escape")
    page.locator("#find").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Find")).to_be_visible()
    page.keyboard.type("zzz")
    expect(page.get_by_role("dialog")).to_contain_text("Nothing has this name.")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Find")).to_be_hidden()
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.press("Control+k")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Find")).to_be_hidden()


def test_no_palette_covers_another_dialog(visit: Visiting, url: str) -> None:
    page = visit(url).page
    page.locator("#token").click()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_have_count(1)
    expect(page.get_by_role("dialog", name="Token")).to_be_visible()


@pytest.mark.parametrize(("text", "first"), [("b", "b"), ("a b", "a b"), ("B c", "b c")])
def test_the_nearest_name_comes_first(visit: Visiting, url: str, text: str, first: str) -> None:
    page = visit(url).page
    given = [{"kind": "Table", "name": name} for name in ("ab", "a b", "xb", "b c", "b", "c")]
    found = run_js(page, "palette.js", "return m.found(a[0], a[1])", [given, text])
    assert found[0]["name"] == first
