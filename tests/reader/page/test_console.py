"""Asking: what is typed is answered, only the newest answer is painted, and errors are the
gateway's own words."""

from __future__ import annotations

import threading

from tests.reader.page.acts import answered, cell, console, expect, run, write
from tests.reader.page.pretended import Pretended, problem
from tests.support.browser import Visiting

TAKEN_MS = 150
"""The editor takes no completion within its first 75 ms, lest one be taken by accident."""


def test_the_whole_path_goes_by_keyboard_alone(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(url).page
    expect(page.locator(".side-list summary")).to_have_count(1)
    keys = page.keyboard
    keys.press("Tab")
    expect(page.locator("#skip")).to_be_focused()
    keys.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    for _ in range(4):
        keys.press("Tab")
        if page.evaluate("document.activeElement.id") == "editor":
            break
    assert page.evaluate("document.activeElement.id") == "editor"
    keys.type("SELECT carrier, flight FROM flights ORDER BY flight", delay=5)
    keys.press("Escape")
    keys.press("Control+Enter")
    answered(page)
    keys.press("Tab")
    expect(page.locator("#run")).to_be_focused()
    for _ in range(12):
        keys.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "grid":
            break
    expect(page.get_by_role("grid")).to_be_focused()
    keys.press("ArrowDown")
    keys.press("ArrowRight")
    expect(cell(page, 1, 1)).to_have_class("cell right at")
    assert page.get_by_role("grid").get_attribute("aria-activedescendant") == "cell-1-1"
    keys.press("Enter")
    expect(page.locator("dialog.look pre")).to_have_text(str(2**53 + 1))
    keys.press("Escape")
    expect(page.get_by_role("grid")).to_be_focused()
    keys.press("Shift+Tab")
    expect(page.locator("#tab-table")).to_be_focused()
    keys.press("ArrowRight")
    expect(page.locator("#tab-chart")).to_be_focused()
    expect(page.locator(".chart canvas")).to_be_visible()
    assert gateway.asked[-1]["sql"].startswith("SELECT carrier")


def test_names_of_tables_and_columns_are_completed(visit: Visiting, url: str) -> None:
    page = visit(url).page
    expect(page.locator(".side-list summary")).to_have_count(1)
    page.locator(".side-list summary").click()
    expect(page.locator(".side-list .column")).to_have_count(4)
    page.locator("#editor .cm-content").click()
    page.keyboard.type("SELECT dep_delay FROM fli", delay=20)
    expect(page.locator("#editor .cm-tooltip-autocomplete li[aria-selected]")).to_have_text(
        "flightstable"
    )
    page.wait_for_timeout(TAKEN_MS)
    page.keyboard.press("Tab")
    expect(page.locator("#editor .cm-content")).to_contain_text("FROM flights")
    page.keyboard.type(" WHERE carr", delay=20)
    expect(page.locator("#editor .cm-tooltip-autocomplete li[aria-selected]")).to_contain_text(
        "carrier"
    )
    page.wait_for_timeout(TAKEN_MS)
    page.keyboard.press("Enter")
    page.keyboard.type(" = 'UA' AND flights.dep_d", delay=20)
    expect(page.locator("#editor .cm-tooltip-autocomplete li[aria-selected]")).to_contain_text(
        "dep_delay"
    )
    page.wait_for_timeout(TAKEN_MS)
    page.keyboard.press("Enter")
    page.keyboard.type(" > 1")
    page.keyboard.press("Control+Enter")
    answered(page)
    expect(page.locator("#editor .cm-content")).to_contain_text(
        "WHERE carrier = 'UA' AND flights.dep_delay > 1"
    )


def test_the_usual_words_of_sql_are_offered_first(visit: Visiting, url: str) -> None:
    page = visit(url).page
    expect(page.locator(".side-list summary")).to_have_count(1)
    first = page.locator("#editor .cm-tooltip-autocomplete li").first
    for typed, word in {"sel": "SELECT", "gro": "GROUP", "whe": "WHERE", "coun": "COUNT"}.items():
        write(page, "")
        page.keyboard.type(typed, delay=20)
        expect(first).to_have_text(word)
    write(page, "SELECT * FROM flights ORDER BY fl")
    page.keyboard.press("Control+Space")
    expect(first).to_contain_text("flight")


def test_the_list_of_completions_goes_when_the_question_is_asked(visit: Visiting, url: str) -> None:
    page = visit(url, errors=True).page
    expect(page.locator(".side-list summary")).to_have_count(1)
    page.locator("#editor .cm-content").click()
    page.keyboard.type("SELECT 1 AS n FROM fli", delay=20)
    listed = page.locator("#editor .cm-tooltip-autocomplete")
    expect(listed).to_be_visible()
    page.keyboard.press("Control+Enter")
    expect(page.locator("#answer .failure")).to_be_visible()
    assert listed.count() == 0


def test_only_the_selected_part_is_asked(visit: Visiting, url: str, gateway: Pretended) -> None:
    page = visit(url).page
    write(page, "SELECT 1 AS one")
    page.keyboard.press("Home")
    for _ in range(8):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Control+Enter")
    answered(page)
    assert gateway.asked[-1]["sql"] == "SELECT 1"


def test_an_older_answer_never_paints_over_a_newer_one(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    gateway.gate["'slow'"] = threading.Event()
    page = visit(url).page
    write(page, "SELECT 'slow' AS word")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#stop")).to_be_visible()
    run(page, "SELECT 'quick' AS word")
    expect(cell(page, 0, 0)).to_have_text("quick")
    gateway.gate["'slow'"].set()
    run(page, "SELECT 'quick again' AS word")
    expect(cell(page, 0, 0)).to_have_text("quick again")
    assert page.locator(".failure").count() == 0


def test_a_late_body_is_thrown_away_even_if_it_cannot_be_aborted(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    """The browser is made deaf to aborts, so that the older answer does arrive: it must still not
    be painted."""
    gateway.gate["'slow'"] = threading.Event()
    page = visit(url).page
    page.evaluate("""() => { const real = fetch; window.arrived = 0;
      window.fetch = async (path, options) => {
        const response = await real(path, {...options, signal: undefined});
        if (path === "/v1/query") window.arrived += 1;
        return response; }; }""")
    write(page, "SELECT 'slow' AS word")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#stop")).to_be_visible()
    run(page, "SELECT 'quick' AS word")
    expect(cell(page, 0, 0)).to_have_text("quick")
    page.evaluate("""() => { window.late = false; new MutationObserver(() => {
        if (document.getElementById("answer").textContent.includes("slow")) window.late = true;
        }).observe(document.getElementById("answer"), {childList: true, subtree: true}); }""")
    gateway.gate["'slow'"].set()
    page.wait_for_function("() => window.arrived === 2")
    run(page, "SELECT 'after' AS word")
    expect(cell(page, 0, 0)).to_have_text("after")
    expect(page.locator("#stop")).to_be_hidden()
    assert page.evaluate("window.late") is False


def test_a_question_is_cancelled_also_at_the_gateway(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    gateway.gate["'slow'"] = threading.Event()
    page = visit(url).page
    run(page, "SELECT 'before' AS word")
    write(page, "SELECT 'slow' AS word")
    page.keyboard.press("Control+Enter")
    page.locator("#stop").click()
    expect(page.locator(".state")).to_contain_text("Cancelled")
    expect(cell(page, 0, 0)).to_have_text("before")
    expect(page.locator("#stop")).to_be_hidden()


def test_an_error_is_shown_as_the_gateway_says_it_and_marked_where_it_is(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    words = 'Binder Error: Referenced column "nope" not found\nCandidate bindings: "carrier"'
    gateway.trouble["/v1/query"] = lambda request: problem(
        400, "invalid_sql", words, position={"line": 2, "column": 5}
    )
    made = visit(console(url, "SELECT 1,\n    nope\nFROM flights"), errors=True)
    expect(made.page.locator(".failure-text")).to_have_text(words)
    expect(made.page.locator("#editor .cm-wrong")).to_have_text("nope")
    expect(made.page.locator(".failure")).to_contain_text("R-1")
    assert made.refused() == []


def test_a_busy_or_stale_gateway_says_when_to_come_back(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    for status, words in (
        (429, "64 queries wait already"),
        (503, "flights was last looked at 11 min ago"),
    ):
        gateway.trouble["/v1/query"] = lambda request, status=status, words=words: problem(
            status, "busy", words
        )
        made = visit(console(url, "SELECT 1"), errors=True)
        expect(made.page.locator(".failure-text")).to_have_text(words)
        expect(made.page.locator(".failure")).to_contain_text("Try again in 7 s")


def test_an_answer_that_broke_off_is_an_error_and_no_shorter_answer(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    from starlette.responses import Response

    gateway.trouble["/v1/query"] = lambda request: Response(
        b"\xff\xff\xff\xff\x10\x00\x00\x00halfway"
    )
    made = visit(console(url, "SELECT 1"), errors=True)
    expect(made.page.locator(".failure-text")).to_contain_text("broke off")


def test_what_runs_does_not_move_the_page(visit: Visiting, url: str, gateway: Pretended) -> None:
    gateway.gate["'slow'"] = threading.Event()
    page = visit(url).page
    run(page, "SELECT 'before' AS word")
    before = page.locator("#answer").bounding_box()
    write(page, "SELECT 'slow' AS word")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".state .spinner")).to_be_visible()
    assert page.locator("#answer").bounding_box() == before
    gateway.gate["'slow'"].set()
    expect(cell(page, 0, 0)).to_have_text("slow")
    assert page.locator("#answer").bounding_box() == before
