"""The page on a real gateway: every door that the pretended one only imitates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import blockstore as bs
from tests.reader.http.gateways import Served, make_lake, rows_of, serving, settings
from tests.reader.page.acts import answered, cell, console, expect, limits, run
from tests.support.browser import Visiting


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    make_lake(folder)
    bs.open(f"{folder}/lake/flights?durable=false").tag("first", version=2)
    return folder


@pytest.fixture(scope="module")
def real(lake: Path) -> Iterator[Served]:
    with serving(settings(f"{lake}/lake?durable=false", lake, tokens=())) as served:
        yield served


def test_what_is_written_is_seen_asked_compared_and_travelled(
    visit: Visiting, real: Served, lake: Path
) -> None:
    made = visit(console(f"{real.url}/", "SELECT count(*) AS n, max(time) AS newest FROM flights"))
    page = made.page
    answered(page)
    expect(cell(page, 0, 0)).to_have_text("1000")
    expect(page.locator("#versions")).to_have_text("flights at 4")
    expect(page.locator(".side-list summary")).to_have_count(2)
    bs.open(f"{lake}/lake/flights?durable=false").append(rows_of(range(1000, 1200)))
    for _ in range(200):
        page.locator("#run").click()
        answered(page)
        if cell(page, 0, 0).text_content() == "1200":
            break
        page.wait_for_timeout(100)
    expect(cell(page, 0, 0)).to_have_text("1200")
    page.locator("#travel").click()
    page.locator("[data-travel=kind]").select_option("tag")
    page.locator("[data-travel=tag]").select_option("first")
    page.locator("#run").click()
    expect(cell(page, 0, 0)).to_have_text("500")
    page.get_by_role("link", name="Tables", exact=True).click()
    page.get_by_role("link", name="flights").click()
    expect(page.get_by_role("rowheader", name="time", exact=True)).to_be_visible()
    page.get_by_role("link", name="Blocks", exact=True).click()
    expect(page.locator(".timeline-note")).to_contain_text("blocks")
    page.locator(".timeline-chart").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("div.chosen[aria-live] code")).to_be_visible()
    page.locator("nav.inner").get_by_role("link", name="History").click()
    page.get_by_role("radio", name="from version 2", exact=True).check()
    page.get_by_role("radio", name="to version 3", exact=True).check()
    expect(page.locator(".difference")).to_contain_text("500 rows more in total")
    assert made.overflow_px() <= 0


def test_wrong_sql_is_reported_and_marked(visit: Visiting, real: Served) -> None:
    made = visit(console(f"{real.url}/", "SELECT n,\n  nope FROM flights"), errors=True)
    expect(made.page.locator(".failure-text")).to_contain_text("nope")
    write_again = made.page.locator("#editor .cm-wrong")
    expect(write_again).to_have_text("nope")
    assert made.refused() == []


def test_a_hundred_thousand_rows_of_a_real_answer(visit: Visiting, real: Served) -> None:
    page = visit(f"{real.url}/").page
    limits(page, rows="100000")
    run(
        page,
        "SELECT a.n * 1000 + b.n AS i, a.s FROM flights a, flights b WHERE a.n < 100 AND b.n < "
        "1000 ORDER BY i",
    )
    expect(page.locator(".state")).to_contain_text("100,000 rows")
    page.get_by_role("grid").focus()
    page.keyboard.press("Control+End")
    expect(cell(page, 99_999, 0)).to_have_text("99999")
    assert page.locator(".grid-row").count() < 80


def test_a_job_and_an_upload_go_through(visit: Visiting, real: Served) -> None:
    page = visit(console(f"{real.url}/", "SELECT n FROM salaries ORDER BY n")).page
    answered(page)
    page.locator("#download").click()
    page.locator("#as-job").click()
    job = page.locator("[data-job]").first
    expect(job.get_by_role("button", name="Result")).to_be_visible()
    with page.expect_download() as waiting:
        job.get_by_role("button", name="Result").click()
    assert Path(waiting.value.path()).stat().st_size > 0
    page.locator("#nav").get_by_role("link", name="Upload").click()
    page.locator("#upload-table").select_option("salaries")
    for text, said in (
        (
            "time,n,s\n2026-01-01T00:00:00Z,1,a\n2026-01-01T00:00:00Z,many,b\n",
            "Nothing was written",
        ),
        ("time,n,s\n2026-01-01T00:00:00Z,11,a\n", "1 row uploaded."),
    ):
        page.locator("#upload-file").set_input_files(
            {"name": "rows.csv", "mimeType": "text/csv", "buffer": text.encode()}
        )
        page.locator("#upload-send").click()
        expect(page.locator(".upload-state")).to_contain_text(said)
        if said == "Nothing was written":
            row = page.get_by_role("table", name="Rows that were refused").locator("tbody td")
            assert row.all_text_contents()[:3] == ["3", "n", "many"]


def test_a_token_opens_what_it_may(visit: Visiting, lake: Path, tmp_path: Path) -> None:
    with serving(settings(f"{lake}/lake?durable=false", tmp_path)) as served:
        made = visit(f"{served.url}/#/tables", errors=True)
        page = made.page
        expect(page.locator("dialog.token")).to_be_visible()
        page.locator("#token-field").fill("bsk_few")
        page.keyboard.press("Enter")
        expect(page.get_by_role("listitem")).to_have_count(1)
        assert made.refused() == []
        assert [address for address in made.requests if "bsk_few" in address] == []
