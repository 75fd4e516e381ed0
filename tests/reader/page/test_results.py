"""Answers as people see them: long ones scroll, values are exact, files are whole, a chart draws
them."""

from __future__ import annotations

import csv
import io
import json
import struct
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
from playwright.sync_api import Page

from tests.reader.page.acts import answered, cell, console, expect, limits, run, run_js
from tests.reader.page.pretended import Pretended, problem
from tests.support.browser import Visiting

SVG = "{http://www.w3.org/2000/svg}"
LONG = "SELECT i, 'row ' || i AS name, i * 0.5 AS half FROM range(100000) t(i)"


def drawn(page: Page) -> int:
    return page.locator(".grid-row").count()


def test_a_hundred_thousand_rows_scroll_with_few_elements(visit: Visiting, url: str) -> None:
    page = visit(url).page
    limits(page, rows="100000")
    run(page, LONG)
    expect(page.locator(".state")).to_contain_text("100,000 rows")
    grid = page.get_by_role("grid")
    assert grid.get_attribute("aria-rowcount") == "100001"
    assert drawn(page) < 80
    for share in (0.25, 0.5, 0.75, 1.0, 0.0):
        row = int(99_999 * share)
        page.evaluate(
            "([row]) => { document.querySelector('.grid').scrollTop = row * 28 - 100; }", [row]
        )
        expect(cell(page, row, 1)).to_have_text(f"row {row}")
        assert drawn(page) < 80
    grid.focus()
    page.keyboard.press("Control+End")
    expect(cell(page, 99_999, 2)).to_have_class("cell right at")
    expect(cell(page, 99_999, 2)).to_be_in_viewport()
    page.keyboard.press("Control+Home")
    expect(cell(page, 0, 0)).to_be_in_viewport()


def test_many_columns_are_drawn_as_they_come_into_sight(visit: Visiting, url: str) -> None:
    page = visit(url).page
    run(page, "SELECT " + ", ".join(f"{place} AS c{place}" for place in range(400)))
    assert page.locator(".cell.head").count() < 60
    page.get_by_role("grid").focus()
    page.keyboard.press("End")
    expect(cell(page, 0, 399)).to_have_text("399")
    assert page.locator(".cell.head").count() < 60


def test_a_limit_says_that_it_cut_and_an_answer_as_long_as_it_does_not(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(url).page
    limits(page, rows="1000")
    run(page, "SELECT i FROM range(1001) t(i)")
    expect(page.locator(".state")).to_contain_text("1,000 rows (the first 1,000")
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "1001")
    run(page, "SELECT i FROM range(1000) t(i)")
    expect(page.locator(".state")).to_contain_text("1,000 rows, ")
    assert gateway.asked[-1]["limit"] == 1001


VALUES = [
    ("9007199254740993::BIGINT", "9007199254740993"),
    ("'-12345678901234567890.123456789'::DECIMAL(38,9)", "-12345678901234567890.123456789"),
    ("0.05::DECIMAL(5,2)", "0.05"),
    ("TIMESTAMP_NS '2026-01-02 03:04:05.123456789'", "2026-01-02T03:04:05.123456789"),
    ("TIMESTAMP '1969-12-31 23:59:59.5'", "1969-12-31T23:59:59.5"),
    ("TIMESTAMP '2026-01-02 03:04:05'", "2026-01-02T03:04:05"),
    ("DATE '2026-01-02'", "2026-01-02"),
    ("TIME '03:04:05.25'", "03:04:05.25"),
    ("NULL::INTEGER", "null"),
    ("''", ""),
    ("true", "true"),
    ("1.5::DOUBLE", "1.5"),
    ("'nan'::DOUBLE", "NaN"),
    ("[1, 2, NULL]", "[1,2,null]"),
    ("{'a': 1, 'b': 'x'}", '{"a":1,"b":"x"}'),
    ("'\\x41\\x00'::BLOB", "4100"),
    ("'ä€😀'", "ä€😀"),
]


def test_values_are_exact_and_readable(visit: Visiting, url: str) -> None:
    page = visit(url, width=4000).page
    run(page, "SELECT " + ", ".join(f"{sql} AS v{place}" for place, (sql, _) in enumerate(VALUES)))
    for place, (sql, shown) in enumerate(VALUES):
        if place == 8:
            page.get_by_role("grid").focus()
            page.keyboard.press("End")
        assert cell(page, 0, place).text_content() == shown, sql


def test_an_empty_answer_and_no_columns_of_numbers_say_so(visit: Visiting, url: str) -> None:
    page = visit(url).page
    run(page, "SELECT carrier FROM flights WHERE false")
    expect(page.locator("#answer")).to_contain_text("No rows.")
    page.locator("#tab-chart").click()
    expect(page.locator("#answer")).to_contain_text("A chart needs at least one row")


def test_all_rows_are_downloaded_in_every_form(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(console(url, "SELECT carrier, flight FROM flights")).page
    answered(page)
    page.locator("#download").click()
    rows = {
        "csv": lambda data: len(data.splitlines()) - 1,
        "tsv": lambda data: len(data.splitlines()) - 1,
        "json": lambda data: len(json.loads(data)),
        "arrow": lambda data: pa.ipc.open_stream(data).read_all().num_rows,
        "parquet": lambda data: pq.read_table(io.BytesIO(data)).num_rows,
    }
    for form, count in rows.items():
        with page.expect_download() as waiting:
            page.locator(f"[data-form={form}]").click()
        assert waiting.value.suggested_filename == f"flights.{form}"
        assert count(Path(waiting.value.path()).read_bytes()) == 600, form
        assert "limit" not in gateway.asked[-1]
        assert gateway.asked[-1]["version"] == {"flights": 2}


FILE_NAMES = [
    ("SELECT 1 AS one", [], "select-1-as-one.csv"),
    ("SELECT * FROM flights", ["flights"], "flights.csv"),
    ("SELECT 1", ["a b/c", "../.d", "e", "f"], "a-b-c-d-e.csv"),
    ("-- a note\nSELECT 'über'", [], "select-über.csv"),
    ("/* a\nnote */ ;", [], "query.csv"),
    ("SELECT " + "x" * 200, [], f"select-{'x' * 33}.csv"),
]


def test_a_file_is_named_by_its_tables_or_else_by_its_query(visit: Visiting, url: str) -> None:
    page = visit(url).page
    for sql, tables, name in FILE_NAMES:
        body = "return m.fileName(a.sql, a.tables, 'csv')"
        assert run_js(page, "file_names.js", body, {"sql": sql, "tables": tables}) == name


def test_an_answer_stays_when_its_download_fails(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(console(url, "SELECT carrier, flight FROM flights"), errors=True).page
    answered(page)
    reported = page.locator(".state").text_content()
    for refused, start in (("/v1/query", "[data-form=csv]"), ("/v1/jobs", "#as-job")):
        gateway.trouble[refused] = lambda request: problem(503, "busy", "too many at once")
        page.locator("#download").click()
        page.locator(start).click()
        expect(page.locator("#aside .failure")).to_contain_text("too many at once")
        expect(page.locator("#aside .failure")).to_be_in_viewport()
        expect(cell(page, 0, 0)).to_be_visible()
        assert page.locator(".state").text_content() == reported
        gateway.trouble.clear()
        page.locator("#download").click()
        with page.expect_download():
            page.locator("[data-form=csv]").click()
        expect(page.locator("#aside .failure")).to_have_count(0)
        page.locator("#download").click()


def test_a_line_break_in_a_value_is_seen(visit: Visiting, url: str) -> None:
    page = visit(url).page
    run(page, "SELECT 'one' || chr(13) || chr(10) || 'two' || chr(10) AS value, 'plain' AS other")
    expect(cell(page, 0, 0)).to_have_text("one↵two↵")
    expect(cell(page, 0, 0).locator(".break")).to_have_count(2)
    expect(cell(page, 0, 1)).to_have_text("plain")
    cell(page, 0, 0).dblclick()
    expect(page.locator("dialog.look pre")).to_have_text("one\r\ntwo\n", use_inner_text=False)


def test_a_chart_draws_bars_and_lines_and_its_columns_are_chosen(visit: Visiting, url: str) -> None:
    page = visit(
        console(
            url, "SELECT carrier, count(*) AS n, avg(dep_delay) AS late FROM flights GROUP BY 1"
        )
    ).page
    answered(page)
    page.locator("#tab-chart").click()
    area = page.locator(".chart-area")
    expect(area).to_have_attribute(
        "aria-label", "Chart of n, late: 4 bars. The table has the same values."
    )
    before = page.locator(".chart canvas").evaluate("(canvas) => canvas.toDataURL()")
    page.locator("[data-y='1']").uncheck()
    expect(area).to_have_attribute(
        "aria-label", "Chart of late: 4 bars. The table has the same values."
    )
    assert page.locator(".chart canvas").evaluate("(canvas) => canvas.toDataURL()") != before
    run(page, "SELECT time_hour, carrier, dep_delay FROM flights")
    expect(page.locator("[data-choice=kind]")).to_have_value("line")
    expect(area).to_have_attribute(
        "aria-label", "Chart of UA, AA, DL, B6: 600 points. The table has the same values."
    )


def test_a_chart_sorts_its_points_and_keeps_gaps_and_says_what_it_leaves_out(
    visit: Visiting, url: str
) -> None:
    page = visit(url).page
    data = run_js(
        page,
        "chart_data.js",
        """
        const column = (name, kind, values) => ({ name, kind,
          number: (row) => kind === "text" ? null : values[row],
            text: (row) => String(values[row]) });
        const result = (columns, rows) => ({ rows, columns });
        const times = result([column("t", "time", [30, 10, 20]), column("y", "number", [3, null,
          2])], 3);
        const many = result([column("k", "text", Array.from({length: 100}, (_, i) => "k" + i)),
          column("n", "number", Array(100).fill(1))], 100);
        const twice = result([column("k", "text", ["a", "a", "b"]), column("n", "number", [1, 2,
          5])], 3);
        const choice = (kind) => ({ kind, x: 0, ys: [1], split: null });
        return [m.seriesOf(times, choice("line")), m.seriesOf(many, choice("bars")),
          m.seriesOf(twice, choice("bars"))];
    """,
    )
    times, many, twice = data
    assert times["xs"] == [10, 20, 30]
    assert times["series"][0]["values"] == [None, 2, 3]
    assert len(many["xs"]) == 60
    assert "first 60 bars" in many["note"]
    assert twice["series"][0]["values"] == [3, 5]


def saved(page: Page, form: str) -> tuple[str, bytes]:
    """The name and the bytes of a chart that is saved."""
    with page.expect_download() as waiting:
        page.locator(f"[data-chart-file={form}]").click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


BARS = "SELECT carrier || '<&' AS of, count(*) AS n, -5 AS low FROM flights GROUP BY 1 ORDER BY 1"
LINES = "SELECT time_hour, dep_delay FROM flights WHERE carrier = 'AA' ORDER BY 1 LIMIT 60"


def test_a_chart_is_saved_as_svg_with_its_values_and_names(visit: Visiting, url: str) -> None:
    page = visit(console(url, BARS)).page
    answered(page)
    page.locator("#tab-chart").click()
    name, data = saved(page, "svg")
    assert name == "flights.svg"
    root = ElementTree.fromstring(data)
    found = [one.text for one in root.iter(f"{SVG}text") if one.text]
    found += [one.text for one in root.iter(f"{SVG}tspan") if one.text]
    assert {"AA<&", "B6<&", "n", "low"} <= set(found)
    heights = [float(one.get("height", 0)) for one in root.iter(f"{SVG}rect")]
    assert len(heights) == 1 + 2 * 4 + 2, "the ground, the bars and the legend"
    assert abs(heights[1] / heights[5] - 150 / 5) < 0.5, "bars are as long as their values"
    assert b"style=" not in data
    run(page, LINES)
    root = ElementTree.fromstring(saved(page, "svg")[1])
    (path,) = root.iter(f"{SVG}path")
    assert path.get("d", "").count("L") > 40
    ends = [round(float(end.split(" ")[1])) for end in path.get("d", "")[1:].split("L")]
    assert all(0 < end < float(root.get("height", 0)) for end in ends)


def test_a_chart_is_saved_as_csv_with_the_values_that_are_drawn(visit: Visiting, url: str) -> None:
    page = visit(console(url, BARS)).page
    answered(page)
    page.locator("#tab-chart").click()
    name, data = saved(page, "csv")
    assert name == "flights.csv"
    lines = list(csv.reader(data.decode().splitlines()))
    assert lines[0] == ["of", "n", "low"]
    assert lines[1] == ["AA<&", "150", "-5"]
    assert len(lines) == 5
    run(page, LINES)
    lines = list(csv.reader(saved(page, "csv")[1].decode().splitlines()))
    assert lines[0] == ["time_hour", "dep_delay"]
    assert lines[1][0].endswith(".000Z")
    assert len(lines) == 61
    assert [line[1] for line in lines[1:]].count("") > 0, "a null is an empty field"
    quoted = """return m.toCsv([{ name: null, data: { xs: [0], isTime: false, labels: ['a,"b"'],
        series: [{ name: "n\\n", values: [null] }] } }], "x")"""
    assert run_js(page, "chart_values.js", quoted) == 'x,"n\n"\r\n"a,""b""",\r\n'


def test_a_chart_is_saved_as_png_in_the_colours_of_the_page(visit: Visiting, url: str) -> None:
    page = visit(console(url, BARS), dark=True, width=390).page
    answered(page)
    page.locator("#tab-chart").click()
    name, data = saved(page, "png")
    assert name == "flights.png"
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    box = page.locator(".chart canvas").bounding_box()
    assert box is not None
    assert width >= box["width"] + 20
    assert height >= box["height"] + 40
    page.locator("[data-y]").first.uncheck()
    page.locator("[data-y]").last.uncheck()
    expect(page.locator(".chart-files")).to_be_hidden()
