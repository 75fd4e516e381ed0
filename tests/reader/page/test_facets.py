"""Charts in facets: one small chart for each value of a column, on the page and in its files."""

from __future__ import annotations

import csv
import json
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page

from tests.reader.page.acts import answered, console, expect, nameless, run, run_js
from tests.support.accessible import violations
from tests.support.browser import Visiting

SVG = "{http://www.w3.org/2000/svg}"
LINES = (
    "SELECT date_trunc('hour', time_hour) AS hour, carrier, avg(dep_delay) AS late, count(*) AS n "
    "FROM flights GROUP BY ALL ORDER BY hour, carrier"
)
BARS = (
    "SELECT carrier, hour(time_hour) % 3 AS part, count(*) AS n FROM flights GROUP BY ALL "
    "ORDER BY carrier, part"
)


def faceted(page: Page, column: str) -> None:
    """The chart of the result, once for each value of a column, as one who uses the keys."""
    page.locator("#tab-chart").click()
    expect(page.locator(".chart canvas").first).to_be_visible()
    choice = page.get_by_label("One chart per")
    choice.focus()
    choice.select_option(label=column)


def names(page: Page) -> list[str]:
    found: list[str] = page.locator(".facet figcaption").all_text_contents()
    return found


def saved(page: Page, form: str) -> bytes:
    with page.expect_download() as waiting:
        page.locator(f"[data-chart-file={form}]").click()
    return Path(waiting.value.path()).read_bytes()


def test_a_chart_is_drawn_for_each_value_with_the_same_axes_and_colours(
    visit: Visiting, url: str
) -> None:
    page = visit(console(url, LINES)).page
    answered(page)
    faceted(page, "carrier")
    page.get_by_label("One series per").select_option(label="–")
    assert names(page) == ["AA", "B6", "DL", "UA"]
    expect(page.locator(".facet canvas")).to_have_count(4)
    expect(page.locator(".chart-area")).to_have_attribute(
        "aria-label", "4 charts, one for each value of carrier"
    )
    expect(page.locator(".facet").first).to_have_attribute(
        "aria-label",
        "carrier: AA. Chart of late, n: 11 points. The table has the same values.",
    )
    expect(page.locator(".chart-legend li")).to_have_text(["late", "n"])
    page.get_by_label("One chart per").select_option(label="–")
    expect(page.locator(".facet")).to_have_count(0)
    expect(page.locator(".chart canvas")).to_have_count(1)
    expect(page.locator(".chart-area")).to_have_attribute("role", "img")
    expect(page.locator(".chart-legend")).to_be_hidden()


DATA = """
    const column = (name, kind, values) => ({ name, kind, isFraction: false,
      number: (row) => (kind === "text" ? null : values[row]),
      text: (row) => (values[row] === null ? null : String(values[row])) });
    const result = {rows: 6, columns: [
      column("site", "text", ["b", "a", "b", null, "a", "b"]),
      column("t", "time", [10, 20, 30, 40, 20, 10]),
      column("kind", "text", ["x", "y", "y", "z", "x", "y"]),
      column("n", "number", [1, -2, 3, 9, null, 5])]};
    const panels = (kind, x) => m.panelsOf(result, {kind, x, ys: [3], split: 2, facet: 0});
"""


def test_facets_have_their_own_rows_and_common_series_and_ranges(visit: Visiting, url: str) -> None:
    page = visit(url).page
    found = run_js(page, "chart_facets.js", f"{DATA} return [panels('line', 1), panels('bars', 1)]")
    lines, bars = found
    assert [one["name"] for one in lines["panels"]] == ["b", "a", "null"]
    assert lines["ranges"] == {"x": [10, 40], "y": [-2, 9]}
    for one in lines["panels"]:
        assert [series["name"] for series in one["data"]["series"]] == ["x", "y", "z"]
    b, a, null = (one["data"] for one in lines["panels"])
    assert b["xs"] == [10, 30]
    assert [series["values"] for series in b["series"]] == [[1, None], [5, 3], [None, None]]
    assert a["xs"] == [20]
    assert [series["values"] for series in a["series"]] == [[None], [-2], [None]]
    assert [series["values"] for series in null["series"]] == [[None], [None], [9]]
    for one in bars["panels"]:
        assert one["data"]["labels"] == ["10", "20", "30", "40"]
        assert one["data"]["xs"] == [0, 1, 2, 3]
    assert bars["panels"][1]["data"]["series"][1]["values"] == [None, -2, None, None]
    assert run_js(
        page,
        "chart_facets.js",
        f"""{DATA} return [m.facetable(result), m.panelsOf(result, {{kind: "line", x: 1, ys: [3],
          split: null, facet: null}}).panels.length]""",
    ) == [[0, 1, 2, 3], 1]


def test_more_values_than_charts_are_refused_in_one_sentence(visit: Visiting, url: str) -> None:
    sql = "SELECT 'k' || (i % {}) AS k, i AS n FROM range(60) t(i)"
    page = visit(console(url, sql.format(13))).page
    answered(page)
    faceted(page, "k")
    expect(page.locator(".chart .hint")).to_have_text(
        "The column k has more than 12 values, and at most 12 charts are drawn: choose another "
        "column, or select fewer of its values."
    )
    expect(page.locator(".chart canvas")).to_have_count(0)
    expect(page.locator(".chart-files")).to_be_hidden()
    run(page, sql.format(12))
    faceted(page, "k")
    expect(page.locator(".facet")).to_have_count(12)


def test_the_files_have_every_facet(visit: Visiting, url: str) -> None:
    page = visit(console(url, BARS)).page
    answered(page)
    faceted(page, "part")
    page.locator("[data-choice=x]").select_option(label="carrier")
    page.locator("[data-y='1']").uncheck()
    page.locator("[data-y='2']").check()
    parts = names(page)
    assert sorted(parts) == ["0", "1", "2"]
    root = ElementTree.fromstring(saved(page, "svg"))
    texts = [one.text for one in root.iter(f"{SVG}text") if one.text]
    assert set(parts) <= set(texts)
    tall = [float(one.get("height", 0)) for one in root.iter(f"{SVG}rect")]
    assert len(tall) == 1 + 3 * 4 + 1, "the ground, the bars of each facet and the legend"
    width, height = (float(root.get(side, 0)) for side in ("width", "height"))
    moved = [one.get("transform", "") for one in root.iter(f"{SVG}g")]
    assert len(set(moved)) == 3
    lines = list(csv.reader(saved(page, "csv").decode().splitlines()))
    assert lines[0] == ["part", "carrier", "n"]
    assert len(lines) == 1 + 3 * 4
    assert {line[0] for line in lines[1:]} == set(parts)
    assert sum(int(line[2]) for line in lines[1:]) == 600
    drawn = struct.unpack(">II", saved(page, "png")[16:24])
    assert drawn == (round(width), round(height))
    assert width > 900


def test_a_saved_query_comes_back_with_its_facets(visit: Visiting, url: str) -> None:
    page = visit(console(url, BARS)).page
    answered(page)
    faceted(page, "carrier")
    page.locator("[data-choice=kind]").select_option("bars")
    page.locator("#saved").click()
    page.get_by_label("Name of this query").fill("by carrier")
    page.keyboard.press("Enter")
    expect(page.locator(".kept[open] [role=status]")).to_have_text("Saved as by carrier.")
    kept = json.loads(page.evaluate("localStorage.getItem('blockstore.saved')"))
    assert kept == [
        [
            "by carrier",
            BARS,
            {"kind": "bars", "x": "carrier", "ys": ["part", "n"], "split": None}
            | {"facet": "carrier"},
        ]
    ]
    page.goto("about:blank")
    page.goto(url)
    page.locator("#saved").click()
    page.locator(".saved-list button", has_text="by carrier").first.click()
    page.keyboard.press("Control+Enter")
    expect(page.locator(".facet")).to_have_count(4)
    expect(page.get_by_label("One chart per").locator("option:checked")).to_have_text("carrier")
    # The same query once more keeps its chart; another one, whose columns differ, has its own.
    page.locator("#run").click()
    answered(page)
    expect(page.locator(".facet")).to_have_count(4)
    run(page, "SELECT carrier, count(*) AS n FROM flights GROUP BY 1")
    expect(page.locator(".facet")).to_have_count(0)


@pytest.mark.parametrize(
    ("stored", "names"),
    [
        ('[["a", "SELECT 1"]]', ["a"]),
        ('[["a", "SELECT 1", {"kind": "pie"}], ["b", "SELECT 2"]]', ["b"]),
        ('[["a", "SELECT 1", null]]', []),
        (
            (
                '[["a", "SELECT 1", {"kind": "bars", "x": null, "ys": [], "split": null, '
                '"facet": "gone"}]]'
            ),
            ["a"],
        ),
    ],
)
def test_what_was_saved_by_others_is_read_or_left_out(
    visit: Visiting, url: str, stored: str, names: list[str]
) -> None:
    page = visit(url).page
    page.evaluate("(text) => localStorage.setItem('blockstore.saved', text)", stored)
    found: list[list[Any]] = run_js(page, "saved.js", "return m.saved();")
    assert [one[0] for one in found] == names
    if names == ["a"]:
        page.reload()
        page.locator("#saved").click()
        page.locator(".saved-list button", has_text="a").first.click()
        page.keyboard.press("Control+Enter")
        answered(page)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_facets_fit_and_are_for_screen_readers_and_keys(
    visit: Visiting, url: str, width: int, dark: bool
) -> None:
    made = visit(console(url, LINES), dark=dark, width=width, height=900)
    page = made.page
    answered(page)
    faceted(page, "carrier")
    expect(page.locator(".facet")).to_have_count(4)
    assert made.overflow_px() <= 0
    assert nameless(page) == []
    assert violations(page) == []
    lefts = page.locator(".facet").evaluate_all(
        "(all) => all.map((one) => Math.round(one.getBoundingClientRect().left))"
    )
    assert len(set(lefts)) == (1 if width == 390 else 3)
    page.get_by_label("One chart per").focus()
    for _ in range(4):  # the values, then the files: nothing between them takes the keyboard
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.chartFile ?? 'none'") in ("svg", "png")
