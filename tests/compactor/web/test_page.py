"""The page in a browser.

``visit`` fails a test whose page logged an error, contacted another host, or broke its policy.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, expect

from blockstore.compactor.process.status import JobState, Quarantined, TableHealth, TableStatus
from blockstore.format.block import StreamKey
from blockstore.service.pages.timeline import Shade
from tests.blockstore.service.pages.scene import lived_in
from tests.compactor.web.conftest import Shown
from tests.compactor.web.process import NOW_MS, job, table_status
from tests.support.browser import PATIENCE_MS, Visit, Visiting

expect.set_options(timeout=PATIENCE_MS)
MARKUP = '<img src=x onerror="window.owned=1"><b>bold</b>'


def opened(visit: Visiting, shown: Shown, **options: object) -> Visit:
    made = visit(shown.url, **options)
    expect(made.page.locator("html[data-ready]")).to_have_count(1)
    expect(made.page.locator(".timeline-chart canvas")).to_have_count(1)
    expect(made.page.locator(".timeline-note")).to_contain_text("shown")
    return made


def drawn(page: Page) -> int:
    """How many blocks the canvas holds, by what it drew last."""
    return int(page.locator(".timeline-chart").get_attribute("data-drawn") or "-1")


def coloured(page: Page, variable: str) -> int:
    """How many pixels of the timeline have the colour of a state."""
    found: int = page.evaluate(
        """variable => {
          const canvas = document.querySelector(".timeline-chart canvas");
          const probe = document.createElement("canvas").getContext("2d");
          probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(variable);
          probe.fillRect(0, 0, 1, 1);
          const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
          const copy = new OffscreenCanvas(canvas.width, canvas.height)
            .getContext("2d", { willReadFrequently: true });
          copy.drawImage(canvas, 0, 0);
          const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
          let count = 0;
          for (let i = 0; i < data.length; i += 4)
            if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255)
              count += 1;
          return count;
        }""",
        variable,
    )
    return found


def chosen(page: Page) -> Locator:
    return page.locator("#inspector")


def test_the_tables_are_shown_and_a_degraded_one_cannot_be_missed(
    shown: Shown, visit: Visiting
) -> None:
    page = opened(visit, shown).page
    expect(page.locator("#alerts .alert.bad")).to_contain_text("events is degraded")
    expect(page.locator("#alerts")).to_contain_text("restore the boundary from a copy")
    expect(page.locator("#health")).to_have_text("a table is degraded")
    rows = page.locator("#tables-body tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("gc/index.boundary is missing")
    expect(rows.nth(2)).to_contain_text("no index")
    shown.process.change("events", health="ok", problem="", fix="")
    expect(page.locator("#alerts .alert")).to_have_count(0)
    expect(page.locator("#health")).to_have_text("2 blocks wait for a person")
    shown.process.change("readings", quarantined=())
    expect(page.locator("#health")).to_have_text("all is well")


def test_versions_and_boundary_are_shown_with_the_blocks(shown: Shown, visit: Visiting) -> None:
    page = opened(visit, shown).page
    expect(page.locator("#facts")).to_contain_text("1,204")
    expect(page.locator("#facts")).to_contain_text("311 to 1,204")
    expect(page.locator("#facts")).to_contain_text("q3-close = 290")


def test_one_version_of_a_table_is_shown_everywhere(shown: Shown, visit: Visiting) -> None:
    timeline = lived_in(300, version=1_207, boundary=311)
    shown.draw(timeline)
    read = [
        block
        for block in timeline.blocks
        if block.shade is Shade.LIVE or (block.shade is Shade.QUARANTINED and block.version)
    ]
    page = opened(visit, shown).page
    row = page.locator("#tables-body tbody tr").first
    expect(row.locator("td[data-label=Version]")).to_have_text("1,207")
    expect(row.locator("td[data-label=Blocks]")).to_have_text(str(len(read)))
    expect(row.locator("td[data-label=Rows]")).to_have_text(
        f"{sum(block.rows for block in read):,}"
    )
    expect(page.locator("#facts")).to_contain_text("312 to 1,207")
    shown.process.change("readings", version=1_206, blocks=1, rows=2)
    page.wait_for_timeout(2_500)
    expect(row.locator("td[data-label=Version]")).to_have_text("1,207")
    expect(page.locator("#facts")).to_contain_text("1,207")
    others = page.locator("#tables-body tbody tr").nth(1)
    expect(others.locator("td[data-label=Version]")).to_have_text("88")
    expect(page.locator("#facts")).to_contain_text("at the last cleaning")


def test_blocks_that_can_be_read_no_more_do_not_hold_the_figures_back(
    shown: Shown, visit: Visiting
) -> None:
    page = opened(visit, shown, errors=True).page
    page.route("**/api/timeline?*", lambda route: route.abort())
    shown.process.change("readings", version=1_300)
    expect(page.locator("#table-note")).to_contain_text("the blocks shown are as of")
    expect(
        page.locator("#tables-body tbody tr").first.locator("td[data-label=Version]")
    ).to_have_text("1,300")
    expect(page.locator("#facts")).to_contain_text("1,300")


def test_requests_are_priced_where_somebody_bills_them(shown: Shown, visit: Visiting) -> None:
    page = opened(visit, shown).page
    figures = page.locator("#figures")
    expect(figures).to_contain_text("3.52")
    expect(figures).to_contain_text("a month at this rate, at your prices")
    shown.process.shown = replace(shown.process.shown, month_cost={})
    expect(figures).to_contain_text("in a folder, where requests cost nothing")
    assert "$" not in figures.inner_text()
    assert "month" not in figures.inner_text()


def test_a_link_to_a_table_that_is_not_here_says_so(shown: Shown, visit: Visiting) -> None:
    page = visit(f"{shown.url}#table=nowhere").page
    expect(page.locator("#alerts")).to_contain_text("There is no table nowhere here")
    expect(page.locator("#table-title")).to_have_text("Blocks of readings")
    page.get_by_role("button", name="trips", exact=True).click()
    expect(page.locator("#alerts")).not_to_contain_text("nowhere")


def test_ten_thousand_blocks_are_drawn_and_can_be_walked_found_and_zoomed(
    shown: Shown, visit: Visiting
) -> None:
    timeline = lived_in(10_000)
    shown.draw(timeline)
    page = opened(visit, shown).page
    expect(page.locator(".timeline-chart")).to_have_attribute("data-drawn", "10000")
    assert coloured(page, "--state-live") > 5_000
    chart = page.locator(".timeline-chart")
    chart.focus()
    chart.press("ArrowRight")
    chart.press("Enter")
    expect(chosen(page)).to_contain_text("nightly-load")
    chart.press("+")
    chart.press("+")
    expect(page.locator(".timeline-note")).to_contain_text("outside these times")
    assert 0 < drawn(page) < 10_000
    chart.press("0")
    expect(page.locator(".timeline-chart")).to_have_attribute("data-drawn", "10000")
    wanted = timeline.blocks[7_777].ulid
    page.locator("#search").fill(wanted)
    expect(page.locator(".timeline-note")).to_contain_text("9,999 blocks filtered out")
    assert drawn(page) == 1


def test_blocks_of_any_times_are_drawn(shown: Shown, visit: Visiting) -> None:
    timeline = lived_in(60)
    far = [
        replace(block, min_time=at, max_time=at + 1)
        for at, block in zip((-(2**53), 2**53, 0), timeline.blocks, strict=False)
    ]
    shown.draw(replace(timeline, blocks=(*far, *timeline.blocks[3:])))
    page = opened(visit, shown).page
    expect(page.locator(".timeline-chart")).to_have_attribute("data-drawn", "60")
    page.locator(".timeline-chart").focus()
    for key in ("End", "+", "+", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    expect(chosen(page)).to_contain_text("nightly-load")


def test_of_very_many_streams_the_first_are_drawn_and_the_rest_is_counted_and_found(
    shown: Shown, visit: Visiting
) -> None:
    timeline = lived_in(1_200)
    blocks = tuple(
        replace(block, stream=StreamKey((("device", f"{place:04}"),), 0))
        for place, block in enumerate(timeline.blocks)
    )
    shown.draw(replace(timeline, blocks=blocks))
    page = opened(visit, shown).page
    expect(page.locator(".timeline-note")).to_contain_text("not drawn: choose a label")
    assert 50 < drawn(page) < 1_200
    page.locator("#labels select").select_option("1199")
    expect(page.locator(".timeline-chart")).to_have_attribute("data-drawn", "1")
    expect(page.locator(".timeline-heading")).to_have_text(["device=1199"])


def test_states_are_filtered_and_colours_go_with_them(shown: Shown, visit: Visiting) -> None:
    page = opened(visit, shown).page
    timeline = shown.drawn.timelines["readings"]
    marked = sum(block.shade is Shade.MARKED for block in timeline.blocks)
    chip = page.locator("#states .chip", has_text="marked")
    expect(chip).to_have_text(f"marked{marked}")
    assert coloured(page, "--state-marked") > 20
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".timeline-note")).to_contain_text(f"{marked} blocks filtered out")
    assert drawn(page) == len(timeline.blocks) - marked
    assert coloured(page, "--state-marked") == 0
    chip.click()
    assert drawn(page) == len(timeline.blocks)


def test_streams_are_filtered_by_their_labels(shown: Shown, visit: Visiting) -> None:
    page = opened(visit, shown).page
    timeline = shown.drawn.timelines["readings"]
    inside = sum(dict(block.stream.labels).get("cluster") == "us1" for block in timeline.blocks)
    page.locator("#labels label", has_text="cluster").locator("select").select_option("us1")
    expect(page.locator(".timeline-chart")).to_have_attribute("data-drawn", str(inside))
    expect(page.locator(".timeline-heading")).to_have_text(
        ["cluster=us1", "cluster=us1, tier=archive · resolution 5 min 00 s"]
    )


def test_hovering_names_a_block_and_a_click_shows_its_meta(shown: Shown, visit: Visiting) -> None:
    page = opened(visit, shown).page
    x, y, ulid = _largest(page)
    page.mouse.move(x, y)
    expect(page.locator(".timeline-tip")).to_be_visible()
    expect(page.locator(".timeline-tip")).to_contain_text(ulid)
    page.mouse.click(x, y)
    expect(chosen(page)).to_contain_text(ulid)
    expect(chosen(page)).to_contain_text("nightly-load, batch 17")
    expect(chosen(page)).to_contain_text(f"blockstore show s3://lake/of/sensors/readings {ulid}")
    assert ulid in page.url


def test_dragging_zooms_and_a_double_click_shows_all(shown: Shown, visit: Visiting) -> None:
    page = opened(visit, shown).page
    before = drawn(page)
    page.evaluate("document.querySelector('.timeline-chart').scrollIntoView({ block: 'center' })")
    box = page.locator(".timeline-chart .u-over").bounding_box()
    assert box is not None
    assert 80 < box["y"] < 600, "below the bar, and in the window"
    y = box["y"] + 60
    page.mouse.move(box["x"] + box["width"] * 0.3, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, y, steps=4)
    page.mouse.up()
    expect(page.locator(".timeline-note")).to_contain_text("outside these times")
    assert drawn(page) < before
    page.mouse.dblclick(box["x"] + 20, box["y"] + 4)
    expect(page.locator(".timeline-note")).not_to_contain_text("outside these times")
    assert drawn(page) == before


def test_everything_is_reached_by_keys_and_the_focus_is_seen(shown: Shown, visit: Visiting) -> None:
    page = opened(visit, shown).page
    page.keyboard.press("Tab")
    expect(page.locator(".skip-link")).to_be_focused()
    wanted = {
        "theme",
        "table trips",
        "state live",
        "label cluster",
        "search",
        "Zoom in",
        "timeline",
        "tab running",
        "only",
        "scroll running jobs",
    }
    met: set[str] = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            """() => {
              const at = document.activeElement;
              const name = at.dataset.key ?? (
                at.dataset.themeChoice !== undefined ? "theme"
                  : at.classList.contains("timeline-chart") ? "timeline"
                  : at.id || at.getAttribute("aria-label") || at.tagName);
              const style = getComputedStyle(at);
              return [name, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0];
            }"""
        )
        assert outline, f"the focus is not seen on {name}"
        met.add(name)
        if wanted <= met:
            break
    assert wanted - met == set()
    table = page.get_by_role("button", name="trips", exact=True)
    table.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#table-title")).to_have_text("Blocks of trips")
    expect(table).to_be_focused()


def test_arrows_move_between_blocks_and_rows_and_say_where_they_are(
    shown: Shown, visit: Visiting
) -> None:
    page = opened(visit, shown).page
    chart, said = page.locator(".timeline-chart"), page.locator(".timeline [aria-live]")
    chart.focus()
    page.keyboard.press("Home")
    expect(said).to_contain_text("level 1")
    first = said.inner_text()
    page.keyboard.press("ArrowRight")
    expect(said).not_to_have_text(first)
    page.keyboard.press("ArrowLeft")
    expect(said).to_have_text(first)
    page.keyboard.press("ArrowDown")
    expect(said).to_contain_text("level 2")
    expect(page.locator(".timeline-mark.stand")).to_be_visible()
    page.keyboard.press("Enter")
    expect(chosen(page)).to_contain_text("nightly-load")
    page.keyboard.press("Escape")
    expect(chosen(page)).to_contain_text("No block chosen")


def test_running_planned_and_finished_jobs_are_separate(shown: Shown, visit: Visiting) -> None:
    page = opened(visit, shown).page
    panel = page.locator("#job-panel")
    expect(panel).to_contain_text("42 % · merging")
    expect(panel.locator("progress")).to_have_js_property("value", 0.42)
    changed = job(213, "readings", JobState.RUNNING, started_ms=NOW_MS, progress=0.9)
    shown.process.change("readings", running=(changed,))
    expect(panel).to_contain_text("90 % · merging")
    page.locator("#tab-running").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-planned")).to_be_focused()
    expect(page.locator("#tab-planned")).to_have_attribute("aria-selected", "true")
    expect(panel.locator("tbody tr")).to_have_count(5)
    expect(panel).to_contain_text("24 overlapping blocks in a closed window of 2h")
    page.locator("#tab-finished").click()
    expect(panel).to_contain_text("damaged")
    expect(panel).to_contain_text("has another hash than meta.json says")
    page.get_by_role("button", name="trips", exact=True).click()
    page.locator("#only").check()
    expect(panel).to_contain_text("No merge has ended")


def test_a_planned_job_is_shown_on_the_timeline(shown: Shown, visit: Visiting) -> None:
    page = opened(visit, shown).page
    page.locator("#tab-planned").click()
    page.locator("#job-panel tbody button").first.click()
    expect(page.locator(".timeline-note")).to_contain_text("outside these times")


def test_quarantined_blocks_are_shown_with_their_reason_and_the_command_that_repairs_them(
    shown: Shown, visit: Visiting
) -> None:
    block = next(
        one for one in shown.drawn.timelines["readings"].blocks if one.shade is Shade.QUARANTINED
    )
    command = f"blockstore show s3://lake/of/sensors/readings {block.ulid}"
    found = Quarantined(
        ulid=block.ulid, reason="chunks/000001.parquet is missing", since_ms=NOW_MS, command=command
    )
    shown.process.change("readings", quarantined=(found,))
    page = opened(visit, shown).page
    section = page.locator("#quarantine")
    expect(section.locator("tbody tr")).to_have_count(1)
    expect(section).to_contain_text("chunks/000001.parquet is missing")
    expect(section.locator("code")).to_have_text(command)
    section.get_by_role("button", name=block.ulid).click()
    expect(chosen(page)).to_contain_text(block.ulid)
    expect(chosen(page)).to_contain_text("quarantined: chunks/000001.parquet is missing")


def test_the_command_that_repairs_is_below_the_one_that_only_looks(
    shown: Shown, visit: Visiting
) -> None:
    block = shown.drawn.timelines["readings"].blocks[0]
    command = f"blockstore repair s3://lake/of/sensors/readings --block {block.ulid}"
    found = Quarantined(ulid=block.ulid, reason="torn", since_ms=NOW_MS, command=command)
    shown.process.change("readings", quarantined=(found,))
    page = opened(visit, shown).page
    expect(page.locator("#quarantine code")).to_have_text([f"{command} --dry-run", command])
    expect(page.locator("#quarantine .command button")).to_have_count(2)


def test_loops_say_when_they_ended_well_and_ill(shown: Shown, visit: Visiting) -> None:
    page = opened(visit, shown).page
    page.get_by_role("button", name="events", exact=True).click()
    row = page.locator("#loops tbody tr", has_text="clean")
    expect(row).to_contain_text("failed 12 × in a row")
    expect(row).to_contain_text("9.0 s ago")
    expect(row).to_contain_text("3 h 00 min ago")
    expect(row).to_contain_text("BoundaryLost")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_follow_the_system_until_someone_chooses(
    shown: Shown, visit: Visiting, dark: bool
) -> None:
    page = opened(visit, shown, dark=dark).page
    assert (_brightness(page) < 60) is dark
    live = coloured(page, "--state-live")
    assert live > 100
    page.locator("select[data-theme-choice]").select_option("light" if dark else "dark")
    assert (_brightness(page) < 60) is not dark
    expect(page.locator("html")).to_have_attribute("data-theme", "light" if dark else "dark")
    assert coloured(page, "--state-live") > 100, "the canvas is drawn again in the new colours"
    page.reload()
    expect(page.locator("html[data-ready]")).to_have_count(1)
    expect(page.locator("html")).to_have_attribute("data-theme", "light" if dark else "dark")


@pytest.mark.parametrize("width", [390, 320, 768, 1440])
def test_nothing_is_wider_than_the_window(shown: Shown, visit: Visiting, width: int) -> None:
    made = opened(visit, shown, width=width, touch=width < 500)
    assert made.overflow_px() <= 0
    for tab in ("planned", "finished"):
        made.page.locator(f"#tab-{tab}").click()
        assert made.overflow_px() <= 0
    made.page.locator(".timeline-chart").focus()
    made.page.keyboard.press("Enter")
    expect(chosen(made.page)).to_contain_text("nightly-load")
    assert made.overflow_px() <= 0


@pytest.mark.parametrize("width", [390, 320])
def test_a_long_name_of_a_table_makes_nothing_wider(
    shown: Shown, visit: Visiting, width: int
) -> None:
    name = "a_table_with_a_name_that_is_longer_than_any_phone_is_wide_whatever_way_you_hold_it"
    running, finished = job(1, name, JobState.RUNNING), job(2, name, JobState.COMMITTED)
    ill = table_status(
        name,
        health=TableHealth.DEGRADED,
        problem=f"{name} failed",
        running=(running,),
        finished=(finished,),
    )
    shown.process.shown = replace(shown.process.shown, tables=(ill,))
    shown.draw(lived_in(20, table=name))
    made = opened(visit, shown, width=width, touch=True)
    expect(made.page.locator("#tables")).to_contain_text(name)
    assert made.overflow_px() <= 0


def test_a_tap_on_a_phone_shows_a_block(shown: Shown, visit: Visiting) -> None:
    page = opened(visit, shown, width=390, touch=True).page
    x, y, ulid = _largest(page)
    page.touchscreen.tap(x, y)
    expect(chosen(page)).to_contain_text(ulid)


def test_contrast_of_texts_is_at_least_four_and_a_half(shown: Shown, visit: Visiting) -> None:
    for dark in (False, True):
        page = opened(visit, shown, dark=dark).page
        assert page.evaluate(_FAINT) == []


def test_the_page_does_not_jump_while_it_is_filled_and_refreshed(
    shown: Shown, visit: Visiting
) -> None:
    made = opened(visit, shown)
    asked = len([url for url in made.requests if url.endswith("/api/status")])
    made.page.evaluate(
        "new PerformanceObserver(list => window.moved = (window.moved ?? 0) + "
        "list.getEntries().reduce((sum, one) => sum + one.value, 0)).observe({ type: "
        "'layout-shift', buffered: true })"
    )
    made.page.wait_for_function(
        "before => performance.getEntriesByType('resource').filter(one => "
        "one.name.endsWith('/api/status')).length > before + 1",
        arg=asked,
    )
    assert made.page.evaluate("window.moved ?? 0") < 0.1


def test_the_focus_and_an_open_choice_survive_the_next_response(
    shown: Shown, visit: Visiting
) -> None:
    page = opened(visit, shown).page
    page.locator("#tab-planned").click()
    button = page.get_by_role("button", name="events", exact=True)
    button.focus()
    shown.process.change("trips", rows=1_234_567)
    expect(page.locator("#tables-body")).to_contain_text("1,234,567")
    expect(button).to_be_focused()
    expect(page.locator("#tab-planned")).to_have_attribute("aria-selected", "true")


def test_markup_from_the_bucket_is_text_and_never_markup(shown: Shown, visit: Visiting) -> None:
    timeline = lived_in(60, table=MARKUP)
    stream = replace(timeline.blocks[0].stream, labels=(("name", MARKUP),))
    blocks = tuple(
        replace(block, stream=stream, reason=MARKUP, shade=Shade.QUARANTINED)
        for block in timeline.blocks
    )
    shown.draw(replace(timeline, blocks=blocks, tags={MARKUP: 7}))
    bad = Quarantined(
        ulid=blocks[0].ulid, reason=MARKUP, since_ms=NOW_MS, command=f"blockstore show '{MARKUP}'"
    )
    table = table_status(
        MARKUP, url=f"s3://lake/{MARKUP}", health="degraded", problem=MARKUP, fix=MARKUP,
        quarantined=(bad,),
        planned=(job(0, MARKUP, JobState.PLANNED, details=MARKUP, labels={"name": MARKUP}),),
        finished=(job(2, MARKUP, JobState.FAILED, ended_ms=NOW_MS, problem=MARKUP),),
    )  # fmt: skip
    shown.process.shown = replace(
        shown.process.shown, tables=(table,), url=MARKUP, not_ready=(MARKUP,)
    )
    page = opened(visit, shown).page
    chart = page.locator(".timeline-chart")
    chart.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(chosen(page)).to_contain_text(MARKUP)
    for tab in ("planned", "finished"):
        page.locator(f"#tab-{tab}").click()
        expect(page.locator("#job-panel")).to_contain_text(MARKUP)
    for place in (
        "#where",
        "#alerts",
        "#tables-body",
        "#facts",
        "#quarantine-body",
        ".timeline-heading",
        ".timeline-tip",
        "#labels",
    ):
        assert MARKUP in (page.locator(place).first.text_content() or ""), place
    assert page.locator("b:text-is('bold'), img[src='x']").count() == 0
    assert page.evaluate("window.owned") is None


def test_a_process_that_stops_responding_is_reported(shown: Shown, visit: Visiting) -> None:
    made = opened(visit, shown, errors=True)
    made.page.route("**/api/status", lambda route: route.abort())
    expect(made.page.locator("#health")).to_have_text("not reachable")
    expect(made.page.locator("#alerts")).to_contain_text("does not respond")
    made.page.unroute("**/api/status")
    expect(made.page.locator("#health")).to_have_text("a table is degraded")


def test_a_table_whose_blocks_cannot_be_read_says_why(shown: Shown, visit: Visiting) -> None:
    del shown.drawn.timelines["trips"]
    made = opened(visit, shown, errors=True)
    made.page.get_by_role("button", name="trips", exact=True).click()
    expect(made.page.locator("#table-note")).to_contain_text("no table trips")
    expect(made.page.locator("#timeline")).not_to_be_visible()


def untended(name: str) -> TableStatus:
    """As the ledger has a table that the configuration leaves alone: nothing is known of it."""
    return TableStatus(name=name, url=f"s3://lake/of/sensors/{name}", health=TableHealth.LEFT)


def test_a_table_that_is_not_tended_shows_no_figures_and_does_not_count_as_well(
    shown: Shown, visit: Visiting
) -> None:
    shown.process.change("events", health="ok", problem="", fix="")
    busy = shown.process.shown
    shown.process.shown = replace(busy, tables=(untended("archive"), *busy.tables))
    page = opened(visit, shown).page
    expect(page.locator("#table-title")).to_have_text("Blocks of readings")
    expect(page.locator("#figures")).to_contain_text("3 well, 1 not tended")
    row = page.locator("#tables-body tbody tr").first
    expect(row.locator(".badge")).to_have_text("not tended")
    assert not re.search(r"\d|none|never", row.inner_text())
    page.get_by_role("button", name="archive", exact=True).click()
    expect(page.locator("#table-note")).to_contain_text(
        "not tended: the configuration leaves this table alone"
    )
    expect(page.locator("#facts")).to_have_text(
        re.compile(r"^\s*Where\s*s3://lake/of/sensors/archive\s*$")
    )
    for part in (".filters", ".split", "#states"):
        expect(page.locator(f"#table {part}")).not_to_be_visible()
    page.get_by_role("button", name="trips", exact=True).click()
    expect(page.locator("#table-note")).to_contain_text("as of")
    expect(page.locator("#timeline")).to_be_visible()


def test_a_lake_of_which_nothing_is_tended_is_not_called_well(
    shown: Shown, visit: Visiting
) -> None:
    shown.process.shown = replace(shown.process.shown, tables=(untended("archive"),))
    page = visit(f"{shown.url}/#table=archive").page
    expect(page.locator("#health")).to_have_text("no table is tended")
    expect(page.locator("#figures")).to_contain_text("0 well, 1 not tended")
    expect(page.locator("#table-note")).to_contain_text("not tended")


def test_a_link_leads_to_a_table_and_a_block(shown: Shown, visit: Visiting) -> None:
    ulid = shown.drawn.timelines["trips"].blocks[5].ulid
    made = visit(f"{shown.url}/#table=trips&block={ulid}")
    expect(made.page.locator("#table-title")).to_have_text("Blocks of trips")
    expect(chosen(made.page)).to_contain_text(ulid)


def test_a_lake_without_tables_says_so(shown: Shown, visit: Visiting) -> None:
    shown.process.shown = replace(shown.process.shown, tables=())
    made = visit(shown.url)
    expect(made.page.locator("#tables-body")).to_contain_text("No table was found yet")
    expect(made.page.locator("#health")).to_have_text("no table yet")


def _brightness(page: Page) -> float:
    text = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, re.findall(r"\d+", text)[:3])) / 3


def _largest(page: Page) -> tuple[float, float, str]:
    """The position of the widest block in the window, and its ULID."""
    page.evaluate("document.querySelector('.timeline-chart').scrollIntoView({ block: 'center' })")
    x, y, ulid = page.evaluate(
        """() => {
          const { timeline } = document.querySelector(".timeline");
          const over = timeline.plot.over.getBoundingClientRect();
          let best = null;
          for (const i of timeline.places) {
            const box = timeline.boxOf(i);
            const inside = over.top + box.top > 90 && over.top + box.top + box.height < innerHeight;
            if (inside && (!best || box.width > best.box.width)) best = { i, box };
          }
          const { i, box } = best;
          const x = over.left + box.left + box.width / 2;
          return [x, over.top + box.top + box.height / 2, timeline.data.ulid[i]];
        }"""
    )
    return x, y, ulid


_FAINT = """() => {
  const parse = text => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map(v => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = at => {
    for (let e = at; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const at of document.querySelectorAll("body *")) {
    const own = [...at.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !at.checkVisibility()) continue;
    if (at.closest("[aria-pressed=false], noscript, .unseen")) continue;
    const [one, other] = [light(parse(getComputedStyle(at).color)), light(ground(at))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) faint.push(`${at.textContent.slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return faint;
}"""
