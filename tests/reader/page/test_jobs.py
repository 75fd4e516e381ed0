"""Jobs and uploads: progress, results, cancelling, and the row that broke a rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.reader.page.acts import answered, console, expect
from tests.reader.page.pretended import Pretended, problem
from tests.support.browser import Visiting


def test_a_question_becomes_a_job_with_progress_and_a_result(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(console(url, "SELECT count(*) FROM flights")).page
    answered(page)
    page.locator("#download").click()
    page.locator("#as-job").click()
    job = page.locator("[data-job]")
    expect(job).to_contain_text("queued")
    record = next(iter(gateway.jobs.values()))
    assert record["version"] == 2
    record |= {"state": "running", "progress": {"rows": 12_000, "bytes": 30, "bytes_total": 100}}
    expect(job).to_contain_text("30 %, 12,000 rows")
    assert job.locator("progress").get_attribute("value") == "0.3"
    record |= {
        "state": "done",
        "result": {"bytes": 8, "rows": 1, "versions": {"flights": 2}, "href": "x"},
    }
    expect(job.get_by_role("button", name="Result")).to_be_visible()
    with page.expect_download() as waiting:
        job.get_by_role("button", name="Result").click()
    assert waiting.value.suggested_filename.endswith(".csv")
    assert Path(waiting.value.path()).read_bytes() == b"a,b\n1,2\n"
    expect(job.locator("progress")).to_have_count(0)


def test_a_job_is_cancelled(visit: Visiting, url: str, gateway: Pretended) -> None:
    made = visit(url)
    made.page.evaluate(
        """() => fetch("/v1/jobs", {method: "POST", body: JSON.stringify({kind: "query",
          sql: "SELECT 1"})})"""
    )
    made.page.evaluate("location.hash = '#/jobs'")
    made.page.get_by_role("button", name="Cancel").click()
    expect(made.page.locator("[data-job]")).to_contain_text("cancelled")
    expect(made.page.get_by_role("button", name="Cancel")).to_have_count(0)


def ids(page: Any) -> list[str]:
    """The jobs in sight, from above."""
    found: list[str] = page.locator("[data-job]").evaluate_all(
        "(cards) => cards.map((card) => card.dataset.job)"
    )
    return found


def test_the_newest_jobs_are_shown_and_older_ones_on_demand(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    made = visit(url)
    page = made.page
    page.evaluate(
        """async () => { for (let n = 0; n < 120; n += 1) await fetch("/v1/jobs", {method: "POST",
          body: JSON.stringify({kind: "query", sql: `SELECT ${n}`})}) }"""
    )
    every = list(gateway.jobs)[::-1]
    for job in every[1:70] + every[71:]:
        gateway.jobs[job]["state"] = "done"
    gateway.seen.clear()
    page.evaluate("location.hash = '#/jobs'")
    expect(page.locator("[data-job]")).to_have_count(50)
    assert ids(page) == every[:50]
    asked = [path for method, path, _ in gateway.seen if method == "GET" and "/v1/jobs" in path]
    assert asked
    assert all(path.endswith("/v1/jobs?limit=50") for path in asked)
    more = page.get_by_role("button", name="Show older jobs")
    more.focus()
    page.keyboard.press("Enter")
    expect(page.locator("[data-job]")).to_have_count(100)
    assert ids(page) == every[:100]
    focused = page.evaluate("document.activeElement.closest('[data-job]')?.dataset.job")
    assert focused == every[50], "the keyboard goes on with the first of them"
    # A new job comes on top, nothing falls out between the pages, and an older one goes on.
    gateway.jobs[every[70]]["state"] = "failed"
    page.evaluate(
        """() => fetch("/v1/jobs", {method: "POST", body: JSON.stringify({kind: "query",
          sql: "SELECT 'new'"})})"""
    )
    expect(page.locator("[data-job]")).to_have_count(101)
    assert ids(page)[1:] == every[:100]
    expect(page.locator(f'[data-job="{every[70]}"]')).to_contain_text("failed")
    more.click()
    expect(page.locator("[data-job]")).to_have_count(121)
    assert ids(page)[1:] == every
    expect(more).to_be_hidden()


def upload(page: Any, name: str, text: str) -> None:
    page.locator("#upload-table").select_option("flights")
    page.locator("#upload-file").set_input_files(
        {"name": name, "mimeType": "text/csv", "buffer": text.encode()}
    )
    page.locator("#upload-send").click()


def test_an_upload_says_how_many_rows_it_wrote(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(f"{url}#/upload?table=flights").page
    expect(page.locator("#upload-table")).to_have_value("flights")
    upload(page, "new.tsv", "carrier,dep_delay\nUA,1.5\nAA,2\n")
    expect(page.locator(".success")).to_contain_text("2 rows uploaded.")
    sent = [
        headers
        for method, path, headers in gateway.seen
        if method == "POST" and "/v1/jobs?table=flights" in path
    ]
    assert sent[0]["content-type"] == "text/tab-separated-values"


def test_a_bad_row_is_shown_with_line_column_value_and_rule(visit: Visiting, url: str) -> None:
    page = visit(f"{url}#/upload?table=flights").page
    expect(page.locator("#upload-table")).to_have_value("flights")
    upload(page, "new.csv", "carrier,dep_delay\nUA,1.5\nAA,<b>soon</b>\n")
    expect(page.locator(".failure-title")).to_have_text("Nothing was written")
    row = page.get_by_role("table", name="Rows that were refused").locator("tbody tr")
    assert row.locator("td").all_text_contents() == [
        "3",
        "dep_delay",
        "<b>soon</b>",
        "a number (double)",
    ]
    assert page.locator(".failure b").count() == 0
    page.get_by_role("link", name="Jobs").click()
    expect(page.locator("[data-job]")).to_contain_text("line 3, column dep_delay")


def test_an_upload_is_followed_while_it_is_checked_and_can_be_cancelled(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(f"{url}#/upload?table=flights").page
    expect(page.locator("#upload-table")).to_have_value("flights")
    gateway.checking = {"rows": 5, "bytes": 10, "bytes_total": 40}
    upload(page, "new.csv", "carrier,dep_delay\nUA,1.5\n")
    expect(page.locator(".upload-state")).to_contain_text("25 %, 5 rows")
    page.locator("#upload-stop").click()
    expect(page.locator(".upload-state")).to_contain_text("Cancelled.")
    assert next(iter(gateway.jobs.values()))["state"] == "cancelled"


@pytest.mark.parametrize(
    ("status", "words"), [(413, "the file has more than 2 GiB"), (403, "this token may not write")]
)
def test_a_refused_upload_says_why(
    visit: Visiting, url: str, gateway: Pretended, status: int, words: str
) -> None:
    made = visit(f"{url}#/upload?table=flights", errors=True)
    expect(made.page.locator("#upload-table")).to_have_value("flights")
    gateway.trouble["/v1/jobs"] = lambda request: problem(status, "refused", words)
    upload(made.page, "new.csv", "a\n1\n")
    expect(made.page.locator(".failure-text")).to_have_text(words)
    expect(made.page.locator("#upload-send")).to_be_enabled()
