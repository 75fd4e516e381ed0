"""What the page must never do: run what it shows, leave its origin, or let the token out of the
tab."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Route

from blockstore.reader.page import FOLDER
from tests.reader.page.acts import answered, console, expect, run, write
from tests.reader.page.pretended import Pretended, flights, problem
from tests.support.browser import Visiting

EVIL = '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>'


def test_names_values_and_errors_with_markup_stay_text(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    name = f"t{EVIL}"
    gateway.versions[name] = [flights(5).rename_columns(["time_hour", EVIL, "flight", "dep_delay"])]
    gateway.tags[name] = {EVIL: 1}
    gateway.jobs["J"] = {
        "id": "J",
        "kind": EVIL,
        "state": EVIL,
        "created": EVIL,
        "table": EVIL,
        "sql": EVIL,
        "format": "csv",
        "progress": {},
        "error": {
            "error": "invalid",
            "message": EVIL,
            "line": EVIL,
            "column": EVIL,
            "value": EVIL,
            "rule": EVIL,
        },
    }
    made = visit(url, errors=True)
    page = made.page
    page.locator(".side-list summary", has_text="onerror").click()
    expect(page.locator(".side-list .column", has_text="onerror")).to_be_visible()
    quoted = EVIL.replace("'", "''")
    alias = EVIL.replace('"', '""')
    run(page, f"SELECT '{quoted}' AS \"{alias}\", 1 AS n")
    expect(page.locator(".cell.head").first).to_contain_text(EVIL)
    page.get_by_role("grid").focus()
    page.keyboard.press("Enter")
    expect(page.locator("dialog.look pre")).to_have_text(EVIL)
    page.keyboard.press("Escape")
    page.locator("#tab-chart").click()
    expect(page.locator(".chart .u-legend")).to_be_visible()
    gateway.trouble["/v1/query"] = lambda request: problem(400, EVIL, EVIL, request_id=EVIL)
    page.locator("#run").click()
    expect(page.locator(".failure-text")).to_have_text(EVIL)
    for fragment in ("#/tables", "#/jobs", "#/upload"):
        page.evaluate("(hash) => { location.hash = hash; }", fragment)
        expect(page.locator(f"#view-{fragment[2:]}")).to_contain_text("onerror")
    for tab in ("", "/rows", "/history", "/tags", "/blocks"):
        page.evaluate(
            "([name, tab]) => { location.hash = `#/tables/${encodeURIComponent(name)}${tab}`; }",
            [name, tab],
        )
        expect(page.locator("#view-table h1")).to_have_text(name)
        expect(page.locator("#view-table .tab-body")).not_to_have_attribute("aria-busy", "true")
    assert page.evaluate("window.hurt") is None
    assert page.locator("img, main script").count() == 0
    assert made.refused() == []
    assert made.foreign == []


def test_no_module_of_the_page_makes_html_of_text_or_runs_it() -> None:
    wrong = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new "
        r"Function|setAttribute\(\"style\"|DOMParser|srcdoc|https?://"
    )
    modules = sorted(FOLDER.rglob("*.js"))
    assert len(modules) > 20
    assert {
        str(path.relative_to(FOLDER)): found
        for path in modules
        if (found := wrong.findall(path.read_text()))
    } == {}
    page = (FOLDER / "index.html").read_text()
    assert re.findall(r"<style|style=|<script(?![^>]*src=)|\son[a-z]+=|https?://", page) == []


def test_every_module_and_sheet_of_the_page_is_small_and_says_what_it_is() -> None:
    files: list[Path] = sorted([*FOLDER.rglob("*.js"), *FOLDER.rglob("*.css")])
    assert [path.name for path in files if len(path.read_text().splitlines()) > 300] == []
    assert [path.name for path in files if not path.read_text().startswith(("//", "/*"))] == []


def test_a_token_is_asked_for_kept_in_the_tab_and_sent_in_a_header_only(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    gateway.token = "bsk_very-secret"
    made = visit(console(url, "SELECT 1 AS one"), errors=True)
    page = made.page
    dialog = page.locator("dialog.token")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("this gateway wants a token")
    page.locator("#token-field").fill("bsk_wrong")
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    page.locator("#token-field").fill("bsk_very-secret")
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.locator(".side-list")).to_contain_text("flights")
    run(page, "SELECT 2 AS two")
    assert page.evaluate("JSON.stringify(sessionStorage)").count("bsk_very-secret") == 1
    assert "secret" not in page.evaluate("JSON.stringify(localStorage)")
    assert "secret" not in page.url
    assert "secret" not in page.content()
    assert page.context.cookies() == []
    assert [address for address in made.requests if "secret" in address] == []
    page.reload()
    answered(page)
    page.locator("#token").click()
    page.get_by_role("button", name="Forget token").click()
    expect(dialog).to_contain_text("this gateway wants a token")
    assert page.evaluate("sessionStorage.length") == 0


def test_who_closes_the_dialog_is_asked_again_by_later_requests_only(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    made = visit(f"{url}#/console", errors=True)
    page = made.page
    expect(page.locator(".side-list")).to_contain_text("flights")
    held: list[Route] = []
    page.route("**/v1/query", lambda one: held.append(one))
    gateway.token = "bsk_very-secret"
    with page.expect_request("**/v1/query"):
        write(page, "SELECT 1 AS one")
        page.keyboard.press("Control+Enter")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    dialog = page.locator("dialog.token")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    held.pop().continue_()
    expect(page.locator(".failure-text")).to_contain_text("this gateway wants a token")
    expect(dialog).to_be_hidden()
    page.unroute("**/v1/query")
    page.locator("#run").click()
    expect(dialog).to_be_visible()
