"""Time: a link opens what it showed, the console reads a version, a time or a tag, and two versions
are compared."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote

import pytest
from starlette.responses import JSONResponse

from tests.reader.page.acts import answered, cell, console, expect, run, run_js
from tests.reader.page.pretended import Pretended, flights
from tests.support.browser import Visiting

COUNT = "SELECT count(*) AS n FROM flights"


def test_a_copied_link_opens_the_same_answer_after_the_table_went_on(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(url, permissions=["clipboard-read", "clipboard-write"]).page
    run(page, COUNT)
    expect(cell(page, 0, 0)).to_have_text("600")
    page.locator("#share").click()
    expect(page.locator("#share")).to_have_text("Copied")
    link = page.evaluate("navigator.clipboard.readText()")
    gateway.versions["flights"].append(flights(900))
    again = visit(link).page
    expect(cell(again, 0, 0)).to_have_text("600")
    expect(again.locator("#travel")).to_contain_text("flights at 2")
    assert gateway.asked[-1]["version"] == {"flights": 2}
    now = visit(url).page
    run(now, COUNT)
    expect(cell(now, 0, 0)).to_have_text("900")


def test_the_address_follows_what_is_typed_and_survives_a_reload(visit: Visiting, url: str) -> None:
    page = visit(url).page
    run(page, COUNT)
    fragment = page.url.partition("#")[2]
    assert parse_qs(fragment.partition("?")[2])["sql"] == [COUNT]
    page.reload()
    expect(cell(page, 0, 0)).to_have_text("600")


def test_a_version_a_time_or_a_tag_is_chosen_and_asked(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(url).page
    run(page, COUNT)
    page.locator("#travel").click()
    kind = page.locator("[data-travel=kind]")
    kind.select_option("version")
    page.locator("[data-travel=version]").fill("1")
    page.locator("#run").click()
    expect(cell(page, 0, 0)).to_have_text("300")
    assert gateway.asked[-1]["version"] == 1
    expect(page.locator("#travel")).to_have_text("◷Version 1")
    assert "version=1" in page.url
    page.locator("#travel").click()
    page.locator("#travel").press("Escape")
    run(page, COUNT)
    page.locator("#travel").click()
    kind.select_option("as_of")
    page.locator("[data-travel=as_of]").fill("2025-11-13T02:13:20")
    page.locator("#run").click()
    expect(page.locator("#versions")).to_have_text("flights at 1")
    assert gateway.asked[-1]["as_of"] == "2025-11-13T02:13:20Z"
    page.locator("#travel").click()
    kind.select_option("tag")
    page.locator("[data-travel=tag]").select_option("q3-close")
    page.locator("#run").click()
    expect(page.locator("#travel")).to_have_text("◷Tag q3-close")
    answered(page)
    assert gateway.asked[-1]["tag"] == "q3-close"
    page.locator("#travel").click()
    kind.select_option("now")
    page.locator("#run").click()
    expect(cell(page, 0, 0)).to_have_text("600")
    assert not {"version", "as_of", "tag"} & set(gateway.asked[-1])


def test_history_compares_two_versions_and_queries_one(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    gateway.versions["flights"] = [flights(100 * part) for part in range(1, 6)]
    page = visit(f"{url}#/tables/flights/history").page
    difference = page.locator(".difference")
    expect(difference).to_contain_text("From version 4 to 5")
    expect(difference).to_contain_text("+300 rows")
    page.get_by_role("radio", name="from version 2", exact=True).check()
    expect(difference).to_contain_text("From version 2 to 5")
    expect(difference).to_contain_text("3 blocks added")
    page.get_by_role("radio", name="to version 1", exact=True).check()
    expect(difference).to_contain_text("1 block removed")
    assert "from=2&to=1" in page.url
    page.reload()
    expect(difference).to_contain_text("From version 2 to 1")
    page.get_by_role("link", name="Query at version 3").click()
    answered(page)
    assert gateway.asked[-1]["version"] == 3


def test_a_comparison_tells_what_is_shown_again_and_no_number_that_is_not_known(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    gateway.versions["flights"] = [flights(100), flights(200)]
    answer = {"added": [], "removed": [], "shown": {"01A": ["01B"]}, "rows": None}
    gateway.trouble["/v1/tables/flights/diff"] = lambda request: JSONResponse(answer)
    difference = visit(f"{url}#/tables/flights/history").page.locator(".difference")
    expect(difference).to_contain_text(
        "only a query can count the difference, writes shown again in 1 block"
    )


def test_a_long_history_comes_in_parts(visit: Visiting, url: str, gateway: Pretended) -> None:
    gateway.versions["flights"] = [flights(1)] * 450
    page = visit(f"{url}#/tables/flights/history").page
    rows = page.locator("tr[data-version]")
    expect(rows).to_have_count(200)
    page.get_by_role("button", name="Older versions").click()
    expect(rows).to_have_count(400)
    page.get_by_role("button", name="Older versions").click()
    expect(rows).to_have_count(450)
    expect(page.get_by_role("button", name="Older versions")).to_be_hidden()


@pytest.mark.parametrize(
    "sql", ["SELECT 1", "SELECT '&=#%+?/' AS \"ä b\"\n-- ünïcode 😀", "SELECT '%25' || '</script>'"]
)
def test_any_sql_comes_back_from_its_link(visit: Visiting, url: str, sql: str) -> None:
    page = visit(f"{url}#/jobs").page
    for travel in (
        {},
        {"version": 7},
        {"versions": {"a:b,c": 3, "é": 4}},
        {"as_of": "2026-01-01T00:00:00Z"},
        {"tag": "a&b=c"},
    ):
        back = run_js(
            page,
            "route.js",
            "const r = m.parse(m.toConsole(a.sql, a.travel)); return [r.options.sql, "
            "m.travelOf(r.options)];",
            {"sql": sql, "travel": travel},
        )
        assert back == [sql, travel]


def test_names_of_tables_come_back_from_their_addresses(visit: Visiting, url: str) -> None:
    page = visit(f"{url}#/jobs").page
    for name in ("flights", "a/b", "history", "a/history", "x?y#z", "100%", "é 😀"):
        for tab in ("", "history", "blocks", "tags"):
            back = run_js(page, "route.js", "return m.parse(m.toTable(a[0], a[1]));", [name, tab])
            assert (back["view"], back["name"], back["tab"]) == (
                "table",
                name,
                tab or "overview",
            ), (
                name,
                tab,
            )


def test_a_link_asks_with_its_text_and_not_with_the_last_one(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(console(url, "SELECT 1 AS a")).page
    answered(page)
    page.evaluate("(hash) => { location.hash = hash; }", console("", "SELECT 2 AS b", version=1))
    expect(cell(page, 0, 0)).to_have_text("2")
    assert gateway.asked[-1]["sql"] == "SELECT 2 AS b"
    assert "SELECT 2 AS b" in unquote(page.url).replace("+", " ")
