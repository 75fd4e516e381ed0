"""A table's Overview: its columns with what is known of their values, and sample rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from playwright.sync_api import Page

import blockstore as bs
from blockstore.reader.http.tokens import Scope, Token, hashed
from blockstore.reader.tables.policies import Policy
from tests.reader.http.gateways import Served
from tests.reader.page.acts import expect
from tests.reader.page.people import gateway, people, url_of
from tests.support.accessible import violations
from tests.support.browser import Visiting

SOME, BOSS = "bsk_some", "bsk_boss"
OWN = Policy(name="own", tables=frozenset({"pay"}), rows="who = 'ann'", hide=frozenset({"note"}))
SCHEMA = bs.typed_schema(
    [
        bs.column("n", "integer", description="The number of the row.", check="n >= 0"),
        bs.column("word", "string", max_length=40),
        ("day", "date"),
    ]
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tokens = (
        Token(
            name="some",
            sha256=hashed(SOME),
            scopes=frozenset({Scope.READ}),
            policies=(OWN,),
        ),
        Token(name="boss", sha256=hashed(BOSS), scopes=frozenset({Scope.ADMIN})),
    )
    with gateway(tmp_path_factory.mktemp("overview"), tokens=tokens) as made:
        table = bs.create(url_of(made, "numbers"), schema=SCHEMA, sort_by=["n"])
        for part in range(5):
            numbers = range(part * part * 40, (part + 1) * (part + 1) * 40)
            rows = [
                {"n": n, "word": None if n % 4 == 0 else f"word {n:05}", "day": None}
                for n in numbers
            ]
            table.append(
                pa.Table.from_pylist(rows, table.definition.schema),
                labels={"site": "aab"[part % 3]},
            )
        pay = bs.create(
            url_of(made, "pay"),
            schema=pa.schema([("who", pa.string()), ("amount", pa.int64()), ("note", pa.string())]),
        )
        pay.append(pa.table({"who": ["ann", "bob"], "amount": [5, 70000], "note": ["a", "secret"]}))
        people(made, "people")
        made.gateway.tables.poll_now()
        yield made


def opened(visit: Visiting, served: Served, token: str, table: str, **looks: object) -> Page:
    page = visit(f"{served.url}/assets/0/page/icon.svg", **looks).page
    page.evaluate("(token) => sessionStorage.setItem('blockstore.token', token)", token)
    page.goto(f"{served.url}/#/tables/{table}")
    expect(page.locator("#statistics-note")).not_to_be_empty()
    return page


def cells(page: Page, column: str) -> list[str]:
    """The cells of a column's row."""
    row = page.locator("table.columns tbody tr").filter(
        has=page.get_by_role("rowheader", name=column, exact=True)
    )
    return [text.strip() for text in row.locator("td").all_text_contents()]


def test_a_column_has_its_type_rules_bounds_nulls_and_distribution(
    visit: Visiting, served: Served
) -> None:
    page = opened(visit, served, BOSS, "numbers", width=1440)
    assert cells(page, "n") == [
        "int",
        "sort key 1, check n >= 0The number of the row.",
        "0",
        "999",
        "0",
        "",
    ]
    assert cells(page, "word") == [
        "string",
        "at most 40 characters",
        "word 00001",
        "word 00999",
        "250",
        "",
    ]
    assert cells(page, "day") == ["date", "", "", "", "1,000", ""]
    assert cells(page, "site") == ["string", "label", "", "", "0", "a (800), b (200)"]
    bars = page.get_by_role("img", name="About 1,000 values from 0 to 999")
    expect(bars.locator("span")).to_have_count(24)
    expect(page.locator("#statistics-note")).to_have_text(
        "Known from the metadata of 1,000 stored rows; no row was read."
    )


def test_sample_rows_come_when_they_are_asked_for(visit: Visiting, served: Served) -> None:
    page = opened(visit, served, BOSS, "numbers")
    expect(page.get_by_role("grid")).to_have_count(0)
    page.locator("#sample").press("Enter")
    expect(page.get_by_role("grid", name="Sample rows of numbers")).to_have_attribute(
        "aria-rowcount", "21"
    )


def test_of_a_restricted_table_nothing_is_shown_but_what_a_query_shows(
    visit: Visiting, served: Served
) -> None:
    made = visit(f"{served.url}/assets/0/page/icon.svg")
    page = made.page
    page.evaluate("(token) => sessionStorage.setItem('blockstore.token', token)", SOME)
    page.goto(f"{served.url}/#/tables/pay")
    expect(page.locator("#statistics-note")).to_contain_text("are not shown")
    assert not [one for one in made.requests if one.endswith("/statistics")]
    assert cells(page, "amount")[2:] == ["", "", "", ""]
    page.locator("#sample").click()
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", "2")
    shown = page.locator("#view-table").inner_text()
    for hidden in ("note", "secret", "70000", "bob"):
        assert hidden not in shown, hidden


@pytest.mark.parametrize("looks", [{"width": 1440}, {"width": 390, "height": 844, "dark": True}])
def test_the_overview_fits_a_phone_and_is_for_screen_readers(
    visit: Visiting, served: Served, looks: dict[str, object]
) -> None:
    page = opened(visit, served, BOSS, "numbers", **looks)
    page.locator("#sample").click()
    expect(page.get_by_role("grid")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    wide = page.locator(".scroll").first.evaluate("(one) => one.scrollWidth - one.clientWidth")
    assert wide <= 0
    assert violations(page) == []
