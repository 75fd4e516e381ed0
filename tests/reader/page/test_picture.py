"""Explain as a picture: what is read and what is left out, for eyes, keys and screen readers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

import blockstore as bs
from tests.reader.http.gateways import Served, rows_of
from tests.reader.page.acts import expect, write
from tests.reader.page.people import gateway, url_of
from tests.support.accessible import violations
from tests.support.browser import Visiting

SQL = "SELECT n FROM flights\nWHERE time >= TIMESTAMPTZ '2026-01-01 00:06:00Z' AND n > 450"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with gateway(tmp_path_factory.mktemp("picture")) as made:
        table = bs.create(
            url_of(made, "flights"),
            schema=rows_of(range(1)).schema,
            time_column="time",
            sort_by=["n"],
        )
        for minute in range(10):
            rows = rows_of(range(minute * 60, minute * 60 + 60))
            table.append(rows, labels={"site": "ab"[minute % 2]})
        made.gateway.tables.poll_now()
        yield made


def explained(page: Page, sql: str) -> None:
    write(page, sql)
    page.keyboard.press("Escape")
    page.locator("#explain").click()


def test_the_blocks_that_are_read_and_left_out_are_counted_and_drawn(
    visit: Visiting, served: Served
) -> None:
    page = visit(f"{served.url}/", width=1440).page
    explained(page, SQL)
    picture = page.locator(".picture")
    expect(picture.locator(".picture-sum")).to_contain_text("3 of 10 blocks are read")
    expect(picture).to_contain_text("Conditions on: ")
    expect(picture).to_contain_text("n (sort key)")
    rows = picture.locator("tbody tr")
    assert [one.locator("td").first.text_content() for one in rows.all()] == ["3", "6", "1"]
    assert [one.locator("th").text_content() for one in rows.all()] == [
        "Read",
        "Left out by time",
        "Left out by statistics",
    ]
    chart = picture.locator(".timeline-chart")
    expect(chart).to_have_attribute("data-drawn", "10")
    filled, hollow = page.evaluate("""() => {
        const timeline = document.querySelector(".picture .timeline").timeline;
        const { width, height } = timeline.plot.ctx.canvas;
        const { data } = timeline.plot.ctx.getImageData(0, 0, width, height);
        const at = (state) => {
            const i = timeline.places.find((one) => timeline.data.state[one] === state);
            const box = timeline.boxOf(i), { left, top } = timeline.plot.bbox;
            const scale = devicePixelRatio;
            const x = Math.round(left + (box.left + box.width / 2) * scale);
            const y = Math.round(top + (box.top + box.height / 2) * scale);
            return [...data.slice((y * width + x) * 4, (y * width + x) * 4 + 3)];
        };
        return [at(0), at(1)];
    }""")
    assert filled == [47, 116, 208]
    assert hollow == [255, 255, 255]


def test_keys_go_through_the_blocks_and_say_what_becomes_of_each(
    visit: Visiting, served: Served
) -> None:
    page = visit(f"{served.url}/").page
    explained(page, f"EXPLAIN {SQL}")
    chart = page.locator(".picture .timeline-chart")
    chart.focus()
    page.keyboard.press("Home")
    said = page.locator(".picture .timeline .unseen[aria-live]")
    expect(said).to_contain_text("skipped block")
    page.keyboard.press("Enter")
    expect(page.locator(".picture > .chosen")).to_contain_text("left out by time")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page.locator(".picture > .chosen")).to_contain_text("This block isread")


def test_a_query_runs_afterwards_and_an_error_of_explain_is_marked(
    visit: Visiting, served: Served
) -> None:
    page = visit(f"{served.url}/", errors=True).page
    explained(page, "EXPLAIN SELECT FROM FROM")
    expect(page.locator("#answer .failure")).to_be_visible()
    explained(page, "UPDATE flights SET n = 1")
    expect(page.locator("#answer .failure-text")).to_contain_text("SELECT")
    explained(page, "SELECT 1")
    expect(page.locator("#answer")).to_contain_text("names no table")
    explained(page, "SELECT count(*) AS c FROM flights")
    expect(page.locator(".picture-sum")).to_have_text(
        "The count is known: none of 10 blocks is read."
    )
    page.locator("#run").click()
    expect(page.locator("#cell-0-0")).to_have_text("600")


@pytest.mark.parametrize("looks", [{"width": 1440}, {"width": 390, "height": 844, "dark": True}])
def test_the_picture_fits_a_phone_and_is_for_screen_readers(
    visit: Visiting, served: Served, looks: dict[str, object]
) -> None:
    made = visit(f"{served.url}/", **looks)
    explained(made.page, SQL)
    expect(made.page.locator(".picture .timeline-chart")).to_have_attribute("data-drawn", "10")
    assert made.overflow_px() <= 0
    assert violations(made.page) == []
