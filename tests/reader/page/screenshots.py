"""Screenshots for the documentation, of a real gateway over a lake that is made for it.

    python -m tests.reader.page.screenshots [NAME...]

Writes gateway-NAME.png into docs/screenshots: those named, or all. Look at them before they are
committed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from playwright.sync_api import Browser, Page, sync_playwright

import blockstore as bs
from tests.reader.http.gateways import Served, serving, settings
from tests.reader.page.acts import answered, cell, console, expect, limits, write
from tests.reader.page.people import edit, put, save
from tests.support.browser import ARGUMENTS, chromium

FOLDER = Path(__file__).parent.parent.parent.parent / "docs" / "screenshots"
DAY_US = 86_400_000_000
BEGAN_US = 1_767_225_600_000_000
SITES = ["Aarhus", "Bergen", "Cork", "Delft"]
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("site", pa.string()),
        ("celsius", pa.float64()),
        ("wind", pa.float64()),
        ("sensor", pa.int64()),
    ]
)
BY_DAY = (
    "SELECT date_trunc('day', time) AS day,\n       site,\n       round(avg(celsius), 2) AS "
    "celsius\nFROM weather\nWHERE time >= '2026-01-01'\nGROUP BY ALL\nORDER BY day, site"
)
BY_SITE = (
    "SELECT site, round(max(celsius), 1) AS warmest, round(max(wind), 1) AS windiest\nFROM "
    "weather\nGROUP BY site\nORDER BY site"
)
MILD = (
    "SELECT time, site, celsius\nFROM weather\nWHERE time >= '2026-01-20' AND celsius > 27\n"
    "ORDER BY time"
)
ROWS = (
    "SELECT time, site, celsius, wind, sensor\nFROM weather\nWHERE wind > 9 -- a stiff "
    "breeze\nORDER BY time\nLIMIT 5000"
)


def weather(day: int) -> pa.Table:
    """A day of four sites, every ten minutes."""
    steps = 144
    seeded = np.random.default_rng(day)
    parts = []
    for place, site in enumerate(SITES):
        moments = BEGAN_US + day * DAY_US + np.arange(steps) * 600_000_000
        warm = (
            8
            + 3 * place
            + 6 * np.sin(np.arange(steps) / steps * 2 * np.pi - 2)
            + 4 * np.sin(day / 9 + place)
        )
        celsius = np.round(warm + seeded.normal(0, 0.6, steps), 2)
        wind = np.round(np.abs(seeded.normal(5, 3, steps)), 1)
        columns = [
            pa.array(moments, SCHEMA.field("time").type),
            pa.array([site] * steps),
            pa.array(celsius),
            pa.array(wind),
        ]
        parts.append(pa.table([*columns, pa.array([place * 10 + 1] * steps)], schema=SCHEMA))
    return pa.concat_tables(parts)


def stock(folder: Path) -> bs.Table:
    """A table whose rows are edited."""
    rows = [
        (name, shelf, count, price)
        for shelf, names in (("A", ("bolt", "nut", "washer")), ("B", ("hinge", "latch", "screw")))
        for count, (name, price) in enumerate(zip(names, (0.4, 0.15, 0.1), strict=True), start=12)
    ]
    columns = [list(column) for column in zip(*rows, strict=True)]
    table = bs.create(
        f"{folder}/lake/stock?durable=false",
        schema=bs.typed_schema(
            [("item", "string"), ("shelf", "string"), ("count", "integer"), ("price", "double")]
        ),
        row_ids=True,
    )
    table.append(pa.table(columns, names=["item", "shelf", "count", "price"]))
    return table


def lake(folder: Path) -> str:
    table = bs.create(
        f"{folder}/lake/weather?durable=false",
        schema=SCHEMA,
        time_column="time",
        sort_by=["site", "time"],
    )
    for day in range(45):
        table.append(weather(day))
    table.delete("site = 'Cork' AND celsius > 25")
    table.tag("january", version=32)
    for name, rows in (("sites", 4), ("forecasts", 12)):
        other = bs.create(
            f"{folder}/lake/{name}?durable=false",
            schema=SCHEMA,
            time_column="time",
            sort_by=["time"],
        )
        other.append(weather(0).slice(0, rows))
    return f"{folder}/lake?durable=false"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        folder = Path(scratch)
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        url, changing = lake(folder), stock(folder)
        with serving(settings(url, folder, tokens=())) as served:
            _all(browser, served, set(sys.argv[1:]), changing)
        browser.close()


def _all(browser: Browser, served: Served, wanted: set[str], changing: bs.Table) -> None:
    home = f"{served.url}/"

    def rows(page: Page) -> None:
        edit(page)
        put(page, 0, 2, "20")
        put(page, 1, 0, "wing nut")
        cell(page, 4, 0).click()
        page.get_by_role("button", name="Delete row").click()
        page.get_by_role("button", name="Add row").click()
        page.keyboard.type("rivet")
        page.keyboard.press("Enter")

    def conflict(page: Page) -> None:
        rows(page)
        changing.set_cells([{"_row_id": 0, "count": 11, "price": 0.45}])
        save(page)
        expect(page.get_by_role("dialog")).to_be_visible()

    def statement(page: Page) -> None:
        write(page, "UPDATE stock\nSET price = round(price * 1.05, 2)\nWHERE shelf = 'A'")
        page.keyboard.press("Escape")
        limits(page, ask_above="0")
        page.keyboard.press("Control+Enter")
        expect(page.get_by_role("dialog")).to_be_visible()

    def changes(page: Page) -> None:
        changing.set_cells([{"_row_id": 1, "count": 9}, {"_row_id": 2, "count": 8}])
        changing.delete_rows([5])
        expect(page.locator("#changes-state")).to_contain_text("9 changes")

    def explain(page: Page) -> None:
        page.locator("#explain").click()
        expect(page.locator(".picture .timeline-chart")).to_be_visible()

    def sample(page: Page) -> None:
        expect(page.locator("#statistics-note")).not_to_be_empty()
        page.locator("#sample").click()
        expect(page.get_by_role("grid")).to_be_visible()

    def chart(page: Page) -> None:
        page.locator("#tab-chart").click()
        expect(page.locator(".chart canvas")).to_be_visible()

    def take(name: str, address: str, *, act: Any = None, **looks: Any) -> None:
        if wanted and name not in wanted:
            return
        context = browser.new_context(
            viewport={"width": looks.get("width", 1280), "height": looks.get("height", 820)},
            color_scheme="dark" if looks.get("dark") else "light",
            reduced_motion="reduce",
        )
        page = context.new_page()
        page.goto(address)
        if "console" in address:
            answered(page)
            page.locator(".side-list summary").first.wait_for(state="attached")
        else:
            expect(page.locator("main > section:visible h1")).to_be_visible()
            expect(page.locator("main > section:visible .waiting")).to_have_count(0)
        if act:
            act(page)
        page.wait_for_timeout(600)
        page.screenshot(path=FOLDER / f"gateway-{name}.png")
        context.close()

    take("console", console(home, ROWS))
    take("chart", console(home, BY_DAY), act=chart, height=1060)
    take("chart-dark", console(home, BY_DAY), act=chart, dark=True, height=900)
    take("bars-dark", console(home, BY_SITE), act=chart, dark=True)
    take("explain", console(home, MILD), act=explain, height=960)
    take("overview", f"{home}#/tables/weather", act=sample)
    take("tables", f"{home}#/tables")
    take("blocks", f"{home}#/tables/weather/blocks")
    take("history", f"{home}#/tables/weather/history?from=20&to=47")
    take("rows", f"{home}#/tables/stock/rows", act=rows, height=720)
    take("conflict", f"{home}#/tables/stock/rows", act=conflict, height=720)
    take("statement", console(home, ROWS), act=statement, height=720)
    take("changes", f"{home}#/tables/stock/changes", act=changes, height=640)
    take("phone", console(home, ROWS), width=390, height=844)
    take(
        "phone-history-dark",
        f"{home}#/tables/weather/history?from=20&to=47",
        width=390,
        height=844,
        dark=True,
    )
    take("phone-chart", console(home, BY_DAY), act=chart, width=390, height=1000)


if __name__ == "__main__":
    main()
