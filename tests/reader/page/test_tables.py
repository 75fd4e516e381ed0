"""Tables: what is shown of them, how fresh it is, and which have problems."""

from __future__ import annotations

from playwright.sync_api import Page
from starlette.responses import JSONResponse

from tests.reader.page.acts import expect
from tests.reader.page.pretended import Pretended, flights, problem
from tests.support.browser import Visiting


def looked_at_again(page: Page) -> None:
    """As when somebody comes back to the tab: the tables are asked for at once, not after the next
    ten seconds."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_tables_show_size_rows_version_freshness_and_health(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    stale = {
        "name": "planes",
        "status": "stale",
        "error": "s3://lake/planes does not answer since 09:12",
        "version": 3,
        "rows": 2_000_000,
        "bytes": 5 * 1024**3,
        "blocks": 12,
        "staleness_s": 700.0,
    }
    loading = {
        "name": "weather",
        "status": "loading",
        "error": None,
        "version": None,
        "rows": None,
        "bytes": None,
        "blocks": None,
        "staleness_s": None,
    }
    summary = gateway._summary("flights")
    gateway.trouble["/v1/tables"] = lambda request: JSONResponse(
        {"tables": [summary, stale, loading]}
    )
    page = visit(f"{url}#/tables", errors=True).page
    cards = page.get_by_role("listitem")
    expect(cards).to_have_count(3)
    planes = cards.filter(has_text="planes")
    for text in ("stale", "2,000,000", "5.0 GiB", "12 min ago", "does not answer since 09:12"):
        expect(planes).to_contain_text(text)
    expect(cards.filter(has_text="weather")).to_contain_text("loading")
    expect(page.locator("#fresh")).to_have_text("1 with problems")
    page.get_by_label("Find a table").fill("plan")
    expect(cards).to_have_count(1)
    page.get_by_label("Find a table").fill("nothing")
    expect(page.locator("#view-tables .empty")).to_have_text("No table name contains that.")


def test_one_table_shows_columns_blocks_and_tags(visit: Visiting, url: str) -> None:
    page = visit(f"{url}#/tables/flights").page
    expect(page.get_by_role("rowheader", name="time_hour")).to_be_visible()
    expect(page.locator("tr", has_text="carrier")).to_contain_text("sort key 1")
    page.get_by_role("link", name="Blocks", exact=True).click()
    timeline = page.locator(".timeline-chart")
    expect(page.locator(".timeline-note")).to_contain_text("2 blocks")
    timeline.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("div.chosen[aria-live]")).to_contain_text("01JD")
    expect(page.locator("div.chosen[aria-live]")).to_contain_text("300")
    page.get_by_role("link", name="Tags", exact=True).click()
    expect(page.locator("tr", has_text="q3-close")).to_contain_text("Query at this tag")


def test_labels_are_among_the_columns(visit: Visiting, url: str, gateway: Pretended) -> None:
    gateway.labels = {"region": "eu1", "site": None}
    page = visit(f"{url}#/tables/flights").page
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(6)
    expect(rows.nth(4)).to_have_text("regionstringlabel, eu1 unless a write says otherwise")
    expect(rows.nth(5)).to_have_text("sitestringlabel")


def test_what_there_is_one_of_is_not_told_as_many(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    gateway.versions = {"flights": [flights(1)]}
    gateway.tags = {}
    page = visit(f"{url}#/tables/flights").page
    expect(page.locator(".facts-line")).to_contain_text("1 row ·")
    expect(page.locator(".facts-line")).to_contain_text("· 1 block ·")


def test_a_lake_without_tables_says_so(visit: Visiting, url: str, gateway: Pretended) -> None:
    gateway.versions = {}
    page = visit(f"{url}#/tables").page
    expect(page.locator("#view-tables .empty")).to_have_text("There are no tables here yet.")


def test_an_unknown_table_is_reported_as_the_gateway_tells_it(visit: Visiting, url: str) -> None:
    made = visit(f"{url}#/tables/fligths", errors=True)
    expect(made.page.locator(".failure-text")).to_have_text("there is no table 'fligths'")
    assert made.refused() == []


def test_what_was_known_stays_when_the_gateway_stops_answering(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    made = visit(f"{url}#/tables", errors=True)
    expect(made.page.get_by_role("listitem")).to_have_count(1)
    gateway.trouble["/v1/tables"] = lambda request: problem(
        503, "unavailable", "the lake cannot be listed"
    )
    looked_at_again(made.page)
    expect(made.page.locator("#view-tables .hint").first).to_contain_text(
        "the lake cannot be listed"
    )
    expect(made.page.get_by_role("listitem")).to_have_count(1)
    expect(made.page.locator("#fresh")).to_have_text("Gateway: 503")


def test_a_new_version_appears_by_itself_and_focus_stays(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(f"{url}#/tables").page
    page.get_by_role("link", name="flights").focus()
    gateway.versions["flights"].append(flights(900))
    looked_at_again(page)
    expect(page.get_by_role("listitem")).to_contain_text("900")
    expect(page.get_by_role("link", name="flights")).to_be_focused()
