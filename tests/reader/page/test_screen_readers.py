"""Every view, dialog and menu as a screen reader meets it: axe finds nothing wrong, in light and in
dark, at a desk and on a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page

from tests.reader.http.gateways import Served
from tests.reader.page.acts import answered, cell, console, expect, limits, write
from tests.reader.page.people import edit, gateway, people, put, save
from tests.support.accessible import violations
from tests.support.browser import Visiting


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with gateway(tmp_path_factory.mktemp("axe")) as made:
        table = people(made, "people")
        table.set_cells([{"_row_id": 0, "age": 42}])
        table.tag("first", version=2)
        yield made


def chart(page: Page) -> None:
    page.locator("#tab-chart").click()
    expect(page.locator(".chart canvas")).to_be_visible()


def wrong(page: Page) -> None:
    write(page, "SELECT agex FROM people")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#answer .failure-text")).to_be_visible()


def asks(page: Page) -> None:
    limits(page, ask_above="0")
    write(page, "UPDATE people SET age = 1")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("dialog")).to_be_visible()


def completes(page: Page) -> None:
    write(page, "SELECT * FROM peo")
    page.keyboard.press("Control+Space")
    expect(page.locator(".cm-tooltip-autocomplete")).to_be_visible()


def menus(page: Page) -> None:
    page.locator("#download").click()
    page.locator("#travel").click()
    expect(page.locator(".menu[open]")).to_have_count(1)


def saves(page: Page) -> None:
    page.locator("#saved").click()
    page.get_by_label("Name of this query").fill("people")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".saved-list li")).to_have_count(1)


def finds(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type("people")
    expect(page.locator("#palette-list li")).to_have_count(2)


def finds_nothing(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type("nothing is named so")
    expect(page.locator("#palette-list li")).to_have_count(0)


def edits(page: Page) -> None:
    edit(page)
    put(page, 0, 2, "20")
    cell(page, 1, 0).click()


def deletes(page: Page) -> None:
    edits(page)
    page.get_by_role("button", name="Delete row").click()


def a_button(name: str) -> Callable[[Page], None]:
    """Press a button that opens a dialog."""

    def act(page: Page) -> None:
        page.get_by_role("button", name=name).first.click()
        expect(page.get_by_role("dialog")).to_be_visible()

    return act


def its_history(page: Page) -> None:
    edit(page)
    cell(page, 0, 2).click()
    page.get_by_role("button", name="Row history").click()
    expect(page.get_by_role("button", name="Restore version 2")).to_be_visible()


def a_bad_file(page: Page) -> None:
    page.locator("#upload-table").select_option("people")
    text = b"name,age,score,member,born,seen,big\nann,-1,,,,,1\nbob,x,,,,,2\n"
    page.locator("#upload-file").set_input_files(
        {"name": "bad.csv", "mimeType": "text/csv", "buffer": text}
    )
    page.locator("#upload-send").click()
    expect(page.get_by_text("Nothing was written", exact=True)).to_be_visible()


def a_conflict(page: Page) -> None:
    edits(page)
    page.evaluate(
        """() => fetch("/v1/statements?wait=60", {method: "POST",
          headers: {"Content-Type": "application/json"},
          body: JSON.stringify({sql: "UPDATE people SET score = random(), age = age + 1"})})"""
    )
    save(page)
    expect(page.get_by_role("dialog")).to_be_visible()


def two_versions(page: Page) -> None:
    page.locator("tbody input[type=radio]").nth(2).check()
    page.locator("tbody input[type=radio]").nth(1).check()
    expect(page.locator(".difference")).not_to_be_empty()


Act = Callable[[Page], None]
CONSOLE = "SELECT name, count(*) AS n, max(age) AS oldest FROM people GROUP BY name"
VIEWS: dict[str, tuple[str, Act | None]] = {
    "console": ("console", None),
    "chart": ("console", chart),
    "error": ("console", wrong),
    "statement": ("console", asks),
    "completion": ("console", completes),
    "menus": ("console", menus),
    "saved queries": ("console", saves),
    "palette": ("#/tables", finds),
    "palette without": ("console", finds_nothing),
    "tables": ("#/tables", None),
    "table": ("#/tables/people", None),
    "a new table": ("#/tables", a_button("New table")),
    "other columns": ("#/tables/people", a_button("Alter table")),
    "no table": ("#/tables/people", a_button("Drop table")),
    "rows": ("#/tables/people/rows", None),
    "row history": ("#/tables/people/rows", its_history),
    "conflict": ("#/tables/people/rows", a_conflict),
    "editing": ("#/tables/people/rows", edits),
    "deleting": ("#/tables/people/rows", deletes),
    "blocks": ("#/tables/people/blocks", None),
    "history": ("#/tables/people/history", None),
    "difference": ("#/tables/people/history", two_versions),
    "changes": ("#/tables/people/changes", None),
    "tags": ("#/tables/people/tags", None),
    "queries": ("#/queries", None),
    "jobs": ("#/jobs", None),
    "upload": ("#/upload", None),
    "bad file": ("#/upload", a_bad_file),
    "jobs of some": ("#/jobs", None),
    "no such table": ("#/tables/nope", None),
}


REFUSED = {"error", "statement", "conflict", "bad file", "no such table"}
"""The gateway refuses something there."""
EXCEPT = {"completion": "scrollable-region-focusable"}
"""The arrow keys of the editor, which keeps the focus, go through the list of completions."""


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_wrong(visit: Visiting, served: Served, view: str) -> None:
    """In light at a desk and in dark on a phone: colours do not depend on the width, nor the layout
    on the colours."""
    place, act = VIEWS[view]
    home = f"{served.url}/"
    address = console(home, CONSOLE) if place == "console" else f"{home}{place}"
    page = visit(address, errors=view in REFUSED, width=1440).page
    if place == "console":
        answered(page)
    else:
        expect(page.locator("main > section:visible h1")).to_be_attached()
        expect(page.locator("[aria-busy]")).to_have_count(0)
    if act is not None:
        act(page)
    assert violations(page, but=EXCEPT.get(view, "")) == []
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(50)
    assert violations(page, but=EXCEPT.get(view, "")) == []
