"""Tables are created, altered and dropped by the page."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, Route

import blockstore as bs
from blockstore.format.column import rules_of
from tests.reader.http.gateways import Served
from tests.reader.page.acts import cell, expect
from tests.reader.page.people import edit, gateway, people, saved, url_of
from tests.support.browser import Visiting


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with gateway(tmp_path_factory.mktemp("tables")) as one:
        yield one


def part(form: Locator, name: str) -> Locator:
    return form.locator(f"[data-part={name}]")


def column(page: Page, place: int) -> Locator:
    return page.locator(".column-form").nth(place)


def fill_column(page: Page, place: int, name: str, kind: str, **rules: str) -> None:
    form = column(page, place)
    part(form, "name").fill(name)
    part(form, "type").select_option(kind)
    if {"check", "default", "description"} & set(rules):
        form.locator("summary").click()
    for rule, text in rules.items():
        part(form, rule).fill(text)


def test_a_table_is_created_and_takes_rows(visit: Visiting, served: Served) -> None:
    page = visit(f"{served.url}/#/tables").page
    page.get_by_role("button", name="New table").click()
    page.get_by_label("Name", exact=True).fill("samples")
    fill_column(page, 0, "id", "entity", pattern="syn[0-9]+")
    part(column(page, 0), "not_null").check()
    kinds = ["string", "int", "double", "bool", "date", "timestamp[us, UTC]", "link", "file"]
    for place, kind in enumerate(kinds, start=1):
        page.get_by_role("button", name="Add column").click()
        fill_column(page, place, f"c{place}", kind)
    fill_column(page, 2, "age", "int", check="age >= 0", default="1", description="in years")
    part(column(page, 1), "max_length").fill("20")
    page.get_by_role("button", name="Create table").click()
    expect(page.get_by_role("heading", level=1, name="samples")).to_be_visible()
    definition = bs.open(url_of(served, "samples")).definition
    assert definition.identity is not None
    found = {field.name: rules_of(field) for field in definition.schema}
    assert list(found) == ["id", "c1", "age", *(f"c{place}" for place in range(3, 9))]
    assert (found["id"].type, found["id"].pattern, found["id"].not_null) == (
        "entity",
        "syn[0-9]+",
        True,
    )
    assert (found["age"].check, found["age"].default, found["age"].description) == (
        "age >= 0",
        "1",
        "in years",
    )
    assert found["c1"].max_length == "20"
    assert (found["c7"].type, found["c8"].type) == ("link", "file")
    edit(page)
    page.get_by_role("button", name="Add row").click()
    page.keyboard.type("syn7")
    page.keyboard.press("Enter")
    expect(cell(page, 0, 2)).to_have_text("1")
    saved(page, 2)


def test_a_key_is_chosen_and_errors_are_shown_where_they_belong(
    visit: Visiting, served: Served
) -> None:
    people(served, "people")
    page = visit(f"{served.url}/#/tables", errors=True).page
    expect(page.get_by_role("link", name="people", exact=True)).to_be_visible()
    page.get_by_role("button", name="New table").click()
    create = page.get_by_role("button", name="Create table")
    name = page.get_by_label("Name", exact=True)
    create.click()
    expect(column(page, 0).get_by_role("alert")).to_have_text("give the column a name")
    fill_column(page, 0, "sku", "string")
    page.get_by_role("button", name="Add column").click()
    fill_column(page, 1, "n", "int", check="nope > 1")
    page.get_by_role("radio", name="A key").check()
    name.fill("a/b")
    create.click()
    expect(page.locator(".field-error", has_text="choose at least one column")).to_be_visible()
    page.get_by_role("checkbox", name="sku").check()
    create.click()
    expect(page.locator("#table-name-error")).to_contain_text("the table's name is 'a/b'")
    name.fill("people")
    part(column(page, 1), "check").fill("n > 1")
    create.click()
    expect(page.locator("#table-name-error")).to_contain_text("already a table people")
    name.fill("stock")
    part(column(page, 1), "check").fill("nope > 1")
    create.click()
    expect(column(page, 1).get_by_role("alert")).to_contain_text("nope")
    part(column(page, 1), "check").fill("n > 1")
    create.click()
    expect(page.get_by_role("heading", level=1, name="stock")).to_be_visible()
    assert bs.open(url_of(served, "stock")).definition.identity.columns == ("sku",)  # type: ignore[union-attr]


def test_columns_are_added_renamed_dropped_moved_and_ruled_in_one_version(
    visit: Visiting, served: Served
) -> None:
    table = people(served, "altered")
    page = visit(f"{served.url}/#/tables/altered", errors=True).page
    page.get_by_role("button", name="Alter table").click()
    alter = page.get_by_role("dialog").get_by_role("button", name="Alter table")
    alter.click()
    expect(page.get_by_role("dialog")).to_contain_text("Nothing is changed yet")
    part(column(page, 0), "name").fill("called")
    part(column(page, 0), "max_length").fill("2")
    column(page, 2).get_by_role("button", name="Drop").click()
    column(page, 1).get_by_role("button", name="Move up").click()
    page.get_by_role("button", name="Add column").click()
    fill_column(page, 7, "note", "string", default="-")
    alter.click()
    expect(column(page, 1).get_by_role("alert")).to_contain_text("'ann'")
    assert table.poll() == 2
    part(column(page, 1), "max_length").fill("10")
    page.get_by_label("Message for the history").fill("tidier")
    alter.click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("rowheader", name="note")).to_be_visible()
    expect(page.locator("tr", has_text="called")).to_contain_text("at most 10 characters")
    again = bs.open(table.url)
    assert again.definition.schema.names == [
        "age",
        "called",
        "member",
        "born",
        "seen",
        "big",
        "note",
    ]
    assert again.poll() == 3
    page.get_by_role("link", name="Rows", exact=True).click()
    expect(cell(page, 0, 1)).to_have_text("ann")


def test_what_was_only_looked_at_in_the_form_of_an_alter_is_not_changed(
    visit: Visiting, served: Served
) -> None:
    check = "\" s\" <> 'x'\nAND \" s\" <> 'y'"
    said = {"description": "one\ntwo", "check": check, "default": "a\nb"}
    schema = bs.typed_schema([bs.column(" s", "string", **said), ("n", "integer")])
    table = bs.create(url_of(served, "looked"), schema=schema, row_ids=True)
    served.gateway.tables.poll_now()
    page = visit(f"{served.url}/#/tables/looked").page
    page.get_by_role("button", name="Alter table").click()
    alter = page.get_by_role("dialog").get_by_role("button", name="Alter table")
    alter.click()
    expect(page.get_by_role("dialog")).to_contain_text("Nothing is changed yet")
    part(column(page, 1), "name").fill("number")
    alter.click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert bs.open(table.url).definition.schema.names == [" s", "number"]
    rules = rules_of(bs.open(table.url).definition.schema.field(0))
    assert (rules.description, rules.check, rules.default) == (
        "one\ntwo",
        check,
        json.dumps("a\nb"),
    )


def test_a_table_is_dropped_after_its_name_was_typed_and_brought_back(
    visit: Visiting, served: Served
) -> None:
    people(served, "doomed")
    made = visit(f"{served.url}/#/tables/doomed", errors=True)
    page = made.page
    asked: list[tuple[str, str, str | None]] = []

    def done(route: Route) -> None:
        sent = route.request
        if sent.method not in ("DELETE", "POST"):
            route.continue_()
            return
        asked.append(
            (sent.method, sent.url.removeprefix(served.url), sent.headers.get("idempotency-key"))
        )
        job = {
            "id": "J",
            "kind": "table",
            "state": "done",
            "progress": {},
            "written": {"version": 3},
        }
        refused = {"error": "conflict", "message": "it is in use", "request_id": "r"}
        route.fulfill(
            status=409 if len(asked) == 1 else 200, json=refused if len(asked) == 1 else job
        )

    page.route("**/v1/tables/doomed**", done)
    page.get_by_role("button", name="Drop table").click()
    drop = page.get_by_role("dialog").get_by_role("button", name="Drop table")
    expect(drop).to_be_disabled()
    page.get_by_label("Type doomed to confirm").fill("doome")
    expect(drop).to_be_disabled()
    page.get_by_label("Type doomed to confirm").fill("doomed")
    drop.click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("it is in use")
    drop.click()
    notice = page.locator(".dropped-notice")
    expect(notice).to_contain_text("Table doomed was dropped.")
    notice.get_by_role("button", name="Bring it back").click()
    expect(page.get_by_role("heading", level=1, name="doomed")).to_be_visible()
    assert [one[:2] for one in asked] == [
        ("DELETE", "/v1/tables/doomed"),
        ("DELETE", "/v1/tables/doomed"),
        ("POST", "/v1/tables/doomed/undrop"),
    ]
    assert all(key for _, _, key in asked)
