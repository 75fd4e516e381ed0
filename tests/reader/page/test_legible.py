"""What is shown can be read: no label cut off, no digit hidden, one name for a type, and no offer
that cannot be taken."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Page

from blockstore.cli.schema_text import type_name
from tests.reader.page.acts import answered, cell, console, expect, limits, run
from tests.reader.page.pretended import Pretended
from tests.support.browser import Visiting

TEXTS = """() => {
window.drawn = [];
const fill = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
  const { a, b, c, d, e, f } = this.getTransform();
  const width = this.measureText(text).width;
  const from = { start: 0, left: 0, center: -width / 2, end: -width,
    right: -width }[this.textAlign];
  const ends = [from, from + width].map((along) => a * (x + along) + c * y + e);
  window.drawn.push({ text, low: Math.min(...ends), high: Math.max(...ends),
    width: this.canvas.width });
  return fill.call(this, text, x, y, ...rest);
};
}"""


def cut_off(page: Page) -> list[str]:
    """Texts of canvases that reach over an edge."""
    found: list[dict[str, Any]] = page.evaluate("window.drawn")
    assert found, "something was drawn"
    return sorted(
        {one["text"] for one in found if one["low"] < -0.5 or one["high"] > one["width"] + 0.5}
    )


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        (
            (
                "SELECT TIMESTAMP '2026-01-01' + to_days(i::int) AS day, i AS n FROM range({days}) "
                "t(i)"
            ),
            "line",
        ),
        (
            (
                "SELECT TIMESTAMP '2026-01-01' + to_hours(i::int) AS hour, i AS n FROM "
                "range({days}) "
                "t(i)"
            ),
            "line",
        ),
        ("SELECT i, -0.00012345 * i AS n FROM range({days}) t(i)", "line"),
        ("SELECT i, -123456789012 * i AS n FROM range({days}) t(i)", "line"),
        ("SELECT 'a name of some length ' || i AS name, i AS n FROM range({days}) t(i)", "bars"),
    ],
    ids=["days", "hours", "small", "large", "names"],
)
def test_no_label_of_a_chart_is_cut_off(
    visit: Visiting, url: str, width: int, sql: str, kind: str
) -> None:
    page = visit(url, width=width).page
    page.evaluate(TEXTS)
    for days in (13, 45, 47):
        run(page, sql.format(days=days))
        page.locator("#tab-chart").click()
        expect(page.locator(".chart canvas")).to_be_visible()
        page.locator("[data-choice=kind]").select_option(kind)
        page.wait_for_timeout(100)
        assert cut_off(page) == [], days
        page.locator("#tab-table").click()


@pytest.mark.parametrize("width", [1440, 390, 361])
def test_no_label_of_a_timeline_is_cut_off(visit: Visiting, url: str, width: int) -> None:
    page = visit(url, width=width).page
    page.evaluate(TEXTS)
    page.evaluate("location.hash = '#/tables/flights/blocks'")
    expect(page.locator(".timeline-note")).to_contain_text("blocks")
    for key in ("+", "ArrowRight", "+"):
        page.locator(".timeline-chart").press(key)
    page.wait_for_timeout(200)
    assert cut_off(page) == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("touch", [False, True])
def test_keys_are_named_where_there_are_some(
    visit: Visiting, url: str, width: int, touch: bool
) -> None:
    page = visit(url, width=width, touch=touch, is_mobile=touch).page
    hint = page.locator("#answer .empty")
    way = "Press Run" if touch else "Press Ctrl and Enter"
    expect(hint).to_have_text(f"{way} to run the SQL above, or the selected part of it.")
    shown = page.evaluate(
        "[...document.querySelectorAll('kbd')].filter((one) => one.offsetParent).map((one) => "
        "one.textContent)"
    )
    assert shown == ([] if touch or width == 390 else ["Ctrl K"])
    page.locator("#find").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    keys = page.get_by_role("dialog").get_by_text("Arrows choose, Enter opens.")
    expect(keys).to_have_count(0 if touch else 1)


@pytest.mark.parametrize("view", ["console", "tables", "jobs", "upload"])
def test_no_strip_is_left_empty_beside_the_page(visit: Visiting, url: str, view: str) -> None:
    page = visit(f"{url}#/{view}", width=1440).page
    expect(page.locator("main > section:visible h1")).to_be_attached()
    right = page.locator("header.top").evaluate("(bar) => bar.getBoundingClientRect().right")
    assert right == 1440


def test_a_number_is_wide_enough_everywhere(visit: Visiting, url: str) -> None:
    page = visit(url, width=1440).page
    run(
        page,
        "SELECT i, CASE WHEN i < 4990 THEN 1 ELSE 9007199254740993 + i END AS late FROM "
        "range(5000) t(i)",
    )
    page.get_by_role("grid").focus()
    page.keyboard.press("Control+End")
    expect(cell(page, 4999, 1)).to_have_text("9007199254745992")
    assert cell(page, 4999, 1).evaluate("(one) => one.scrollWidth <= one.clientWidth")


TYPES = [
    ("1::TINYINT", pa.int8()),
    ("1::INTEGER", pa.int32()),
    ("1::BIGINT", pa.int64()),
    ("1::UBIGINT", pa.uint64()),
    ("1::FLOAT", pa.float32()),
    ("1::DOUBLE", pa.float64()),
    ("'x'", pa.string()),
    ("true", pa.bool_()),
    ("1::DECIMAL(12,3)", pa.decimal128(12, 3)),
    ("DATE '2026-01-02'", pa.date32()),
    ("TIME '03:04:05'", pa.time64("us")),
    ("TIMESTAMP '2026-01-02'", pa.timestamp("us")),
    ("TIMESTAMP_NS '2026-01-02'", pa.timestamp("ns")),
    ("'x'::BLOB", pa.binary()),
    ("[1::BIGINT]", pa.list_(pa.int64())),
    ("{'a': 1::BIGINT, 'b c': 'x'}", pa.struct([("a", pa.int64()), ("b c", pa.string())])),
    ("MAP {'x': 1.5::DOUBLE}", pa.map_(pa.string(), pa.float64())),
]


def test_a_type_has_the_name_that_it_has_in_the_table(visit: Visiting, url: str) -> None:
    page = visit(url, width=8000).page
    run(page, "SELECT " + ", ".join(f"{sql} AS v{place}" for place, (sql, _) in enumerate(TYPES)))
    shown = page.locator(".cell.head .type").all_text_contents()
    assert shown == [type_name(kind) for _, kind in TYPES]


@pytest.mark.parametrize("width", [1440, 390])
def test_the_head_of_a_column_is_whole(visit: Visiting, url: str, width: int) -> None:
    page = visit(url, width=width).page
    names = ["x", "Wide_MMMM_WWWW_name", "of some length, as names go"]
    run(
        page,
        "SELECT "
        + ", ".join(
            f'{sql} AS "{names[place % 3]} {place}"' for place, (sql, _) in enumerate(TYPES)
        ),
    )
    seen = set()
    page.get_by_role("grid").focus()
    for _ in TYPES:
        parts = page.locator(".cell.head :is(.name, .type)").evaluate_all(
            "(all) => all.map((one) => [one.textContent, one.scrollWidth <= one.clientWidth])"
        )
        assert [text for text, is_whole in parts if not is_whole] == []
        seen.update(text for text, _ in parts)
        page.keyboard.press("ArrowRight")
    assert len(seen) >= 2 * len(TYPES) - 2


def test_digits_inside_nested_values_are_exact(visit: Visiting, url: str) -> None:
    page = visit(url, width=1440).page
    run(
        page,
        "SELECT {'price': 12345678901234567.50::DECIMAL(19,2), 'id': 9007199254740993, 'at': DATE "
        "'2026-01-02'} AS one, "
        "[9007199254740993, 1] AS many, [0.10::DECIMAL(5,2)] AS decimals, "
        "[TIMESTAMP '2026-01-02 03:04:05.123456', NULL] AS moments",
    )
    assert (
        cell(page, 0, 0).text_content()
        == '{"price":12345678901234567.50,"id":9007199254740993,"at":"2026-01-02"}'
    )
    assert cell(page, 0, 1).text_content() == "[9007199254740993,1]"
    assert cell(page, 0, 2).text_content() == "[0.10]"
    assert cell(page, 0, 3).text_content() == '["2026-01-02T03:04:05.123456",null]'


def test_more_than_the_highest_limit_is_offered_as_a_download_alone(
    visit: Visiting, url: str
) -> None:
    page = visit(url).page
    limits(page, rows="1000")
    run(page, "SELECT i FROM range(500001) t(i)")
    expect(page.locator(".state")).to_contain_text("raise the limit")
    limits(page, rows="500000")
    page.locator("#run").click()
    expect(page.locator(".state")).to_contain_text("the first 500,000: download all")
    expect(page.locator(".state")).not_to_contain_text("raise")


@pytest.mark.parametrize(
    "fragment", ["#/nowhere", "#/console/x", "#/jobs/x/y", "#nonsense", "#/upload/flights"]
)
def test_an_address_that_is_none_says_so(visit: Visiting, url: str, fragment: str) -> None:
    made = visit(f"{url}{fragment}")
    page = made.page
    expect(page.get_by_role("heading", level=1, name="Not found")).to_be_visible()
    expect(page.locator("main > section:visible")).to_contain_text(fragment)
    expect(page).to_have_title("Not found · Blockstore")
    expect(page.locator("#nav [aria-current]")).to_have_count(0)
    page.get_by_role("link", name="Go to the console", exact=True).click()
    expect(page.locator("#editor")).to_be_visible()


@pytest.mark.parametrize("fragment", ["", "#", "#/", "#/console", "#/console/"])
def test_the_console_is_where_one_arrives(visit: Visiting, url: str, fragment: str) -> None:
    expect(visit(f"{url}{fragment}").page.locator("#editor")).to_be_visible()


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_a_list_of_completions_hides_nothing_that_was_typed(
    visit: Visiting, url: str, gateway: Pretended, width: int, height: int
) -> None:
    sql = "SELECT carrier, dep_d\nFROM flights\nWHERE carrier = 'UA'\nORDER BY 1\nLIMIT 5"
    page = visit(console(url, sql.replace("dep_d", "dep_delay")), width=width, height=height).page
    answered(page)
    expect(page.locator(".side-list summary")).to_have_count(1)
    page.locator("#editor .cm-line").first.click()
    page.keyboard.press("End")
    page.keyboard.press("Backspace")
    page.keyboard.press("Backspace")
    page.keyboard.type("a", delay=20)
    listed = page.locator("#editor .cm-tooltip-autocomplete")
    expect(listed).to_be_visible()
    page.wait_for_timeout(300)
    box = listed.bounding_box()
    assert box is not None
    for line in page.locator("#editor .cm-line").all():
        typed = line.bounding_box()
        assert typed is not None
        assert box["y"] >= typed["y"] + typed["height"] - 3, line.text_content()
    assert box["x"] + box["width"] <= width


def test_names_of_columns_are_whole_on_a_phone(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    at = pa.timestamp("us", "UTC")
    names = ["day", "country", "amount", "departure"]
    gateway.versions = {
        "short": [pa.schema([pa.field(name, at, nullable=False) for name in names]).empty_table()],
        "long": [pa.schema([("a" * 90, at), ("b", at)]).empty_table()],
    }
    lines = """(element) => {
        const range = document.createRange();
        range.selectNodeContents(element);
        const tops = [...range.getClientRects()].map(({ top }) => Math.round(top));
        return new Set(tops).size;
    }"""
    page = visit(f"{url}#/tables/short", width=390, height=844).page
    heads = page.locator("tbody th")
    expect(heads).to_have_count(4)
    assert [head.evaluate(lines) for head in heads.all()] == [1, 1, 1, 1]
    made = visit(f"{url}#/tables/long", width=390, height=844)
    expect(made.page.locator("tbody th")).to_have_count(2)
    assert made.page.locator("tbody th").first.evaluate(lines) > 1
    assert made.overflow_px() == 0
