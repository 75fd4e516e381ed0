"""Looks: dark and light, the width of a phone, and focus that can be seen."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.reader.page.acts import answered, console, expect, nameless, run
from tests.reader.page.pretended import Pretended, flights
from tests.support.browser import Visiting

VIEWS = [
    "#/tables",
    "#/tables/flights",
    "#/tables/flights/rows",
    "#/tables/flights/blocks",
    "#/tables/flights/history",
    "#/tables/flights/tags",
    "#/queries",
    "#/jobs",
    "#/upload",
]
LONG_NAME = "a_table_with_a_name_that_is_longer_than_any_phone_is_wide_whatever_way_you_hold_it"


def brightness(page: Page, selector: str) -> float:
    return page.locator(selector).evaluate(
        "(element) => getComputedStyle(element).backgroundColor.match(/[0-9.]+/g).slice(0, "
        "3).reduce((sum, part) => sum + Number(part), 0) / 765"
    )


def test_dark_and_light_follow_the_system_and_then_the_switch(visit: Visiting, url: str) -> None:
    page = visit(url, dark=True).page
    assert brightness(page, "body") < 0.3
    run(page, "SELECT 1 AS one")
    assert brightness(page, ".grid") < 0.3
    assert brightness(page, "#editor .cm-editor") < 0.3
    page.locator("#theme").select_option("light")
    for selector in ("body", ".grid", "#editor .cm-editor"):
        assert brightness(page, selector) > 0.8, selector
    page.reload()
    assert brightness(page, "body") > 0.8
    page.locator("#theme").select_option("system")
    assert brightness(page, "body") < 0.3


def test_a_chart_is_drawn_again_in_the_other_colours(visit: Visiting, url: str) -> None:
    page = visit(console(url, "SELECT carrier, count(*) AS n FROM flights GROUP BY 1")).page
    answered(page)
    page.locator("#tab-chart").click()
    canvas = page.locator(".chart canvas")
    light = canvas.evaluate("(canvas) => canvas.toDataURL()")
    page.locator("#theme").select_option("dark")
    assert canvas.evaluate("(canvas) => canvas.toDataURL()") != light


@pytest.mark.parametrize("width", [390, 760])
def test_nothing_is_wider_than_a_phone(
    visit: Visiting, url: str, gateway: Pretended, width: int
) -> None:
    gateway.versions[LONG_NAME] = [flights(3)]
    made = visit(
        console(url, "SELECT *, repeat('wide', 200) AS wide FROM flights"),
        width=width,
        height=844,
        touch=True,
    )
    page = made.page
    answered(page)
    assert made.overflow_px() <= 0
    page.locator("#download").click()
    assert made.overflow_px() <= 0
    page.locator("#travel").click()
    expect(page.locator(".menu[open]")).to_have_count(1)
    assert made.overflow_px() <= 0
    page.locator("#travel").press("Escape")
    expect(page.locator(".menu[open]")).to_have_count(0)
    page.locator("#tab-chart").click()
    assert made.overflow_px() <= 0
    for fragment in [
        *VIEWS,
        *(view.replace("flights", LONG_NAME) for view in VIEWS if "flights" in view),
    ]:
        page.evaluate("(hash) => { location.hash = hash; }", fragment)
        expect(page.locator("main > section:visible h1")).to_be_visible()
        expect(page.locator("[aria-busy]")).to_have_count(0)
        assert made.overflow_px() <= 0, fragment
    page.evaluate("location.hash = '#/console'")
    run(page, f"SELECT * FROM {LONG_NAME}")
    assert made.overflow_px() <= 0
    page.locator("#run").scroll_into_view_if_needed()
    box = page.locator("#run").bounding_box()
    assert box is not None
    assert box["height"] >= 32


@pytest.mark.parametrize("tab", ["history", "tags", ""])
def test_a_table_is_whole_on_a_phone(
    visit: Visiting, url: str, gateway: Pretended, tab: str
) -> None:
    gateway.versions["flights"] = [flights(1)] * 60
    gateway.tags["flights"] = {f"a-tag-of-{'some-' * 12}length": 1, "b": 60}
    page = visit(f"{url}#/tables/flights/{tab}", width=390, height=844).page
    expect(page.locator("table.plain")).to_be_visible()
    expect(page.locator("[aria-busy]")).to_have_count(0)
    wide = "(one) => one.scrollWidth - one.clientWidth"
    assert page.locator(".scroll").evaluate(wide) <= 0
    assert page.locator(".tabs.inner").evaluate(wide) <= 0
    for link in page.locator(".tabs.inner a").all():
        box = link.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


def test_focus_is_visible_wherever_the_keyboard_goes(visit: Visiting, url: str) -> None:
    page = visit(console(url, "SELECT * FROM flights")).page
    answered(page)
    unseen = []
    for _ in range(30):
        page.keyboard.press("Tab")
        what, seen = page.evaluate("""() => {
            const element = document.activeElement;
            const style = getComputedStyle(element);
            const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
            return [`${element.tagName} ${element.id} ${element.className}`,
              outlined || element === document.body];
        }""")
        if not seen:
            unseen.append(what)
    assert unseen == []


def test_every_control_has_a_name(visit: Visiting, url: str) -> None:
    page = visit(console(url, "SELECT * FROM flights")).page
    answered(page)
    for fragment in ["#/console", *VIEWS]:
        page.evaluate("(hash) => { location.hash = hash; }", fragment)
        expect(page.locator("main > section:visible h1")).to_be_attached()
        assert nameless(page) == []
