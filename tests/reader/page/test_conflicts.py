"""Rows that others changed while they were edited: shown side by side, and nothing is overwritten
unseen."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from playwright.sync_api import Locator, Page, Route

import blockstore as bs
from tests.reader.http.gateways import Served
from tests.reader.page.acts import cell, expect
from tests.reader.page.people import (
    edit,
    gateway,
    items,
    now,
    people,
    put,
    save,
    summary,
    url_of,
)
from tests.reader.page.test_safety import EVIL
from tests.support.browser import Visiting


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with gateway(tmp_path_factory.mktemp("conflicts")) as one:
        yield one


def shows(dialog: Locator, name: str, *texts: str) -> None:
    """What a column was, is, and is to be."""
    expect(dialog.locator(f"tr[data-cell={name}] td")).to_have_text(list(texts))


def chosen(page: Page, version: int) -> None:
    """Save what is chosen, and wait until it is done."""
    page.get_by_role("button", name="Save what is chosen").click()
    expect(page.locator(".saved")).to_have_text(f"Saved as version {version}.")


def test_both_sides_are_shown_and_each_cell_is_chosen(visit: Visiting, served: Served) -> None:
    table = people(served, "both")
    page = visit(f"{served.url}/#/tables/both/rows", errors=True).page
    edit(page)
    put(page, 0, 0, "mine")
    put(page, 0, 1, "42")
    put(page, 0, 2, "2.5")
    put(page, 1, 0, "bobby")
    table.set_cells([{"_row_id": 0, "name": "theirs", "age": 50, "big": 1}])
    save(page)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 row changed meanwhile")
    shows(dialog, "name", "ann", "theirs", "mine")
    shows(dialog, "age", "41", "50", "42")
    shows(dialog, "score", "1.5", "1.5", "2.5")
    shows(dialog, "big", "9007199254740993", "1", "unchanged")
    expect(dialog.locator("tr[data-cell=born]")).to_have_count(0)
    expect(dialog.get_by_role("radio", name="name as it is now")).to_be_checked()
    expect(dialog.get_by_role("radio", name="score as yours")).to_be_checked()
    dialog.get_by_role("radio", name="age as yours").check()
    assert table.poll() == 3, "nothing of the set was applied"
    chosen(page, 4)
    assert now(table, "name", "age", "score", "big") == [
        ("bobby", 30, -0.25, 2),
        ("cat", None, None, 3),
        ("theirs", 42, 2.5, 1),
    ]


def test_a_conflict_while_a_conflict_is_solved_is_shown_again(
    visit: Visiting, served: Served
) -> None:
    table = people(served, "again")
    page = visit(f"{served.url}/#/tables/again/rows", errors=True).page
    edit(page)
    put(page, 0, 0, "mine")
    table.set_cells([{"_row_id": 0, "name": "second"}])
    save(page)
    dialog = page.get_by_role("dialog")
    shows(dialog, "name", "ann", "second", "mine")
    table.set_cells([{"_row_id": 0, "name": "third"}])
    dialog.get_by_role("radio", name="name as yours").check()
    page.get_by_role("button", name="Save what is chosen").click()
    expect(dialog.locator("tr[data-cell=name] td").nth(1)).to_have_text("third")
    shows(dialog, "name", "second", "third", "mine")
    page.get_by_role("button", name="Back to the rows").click()
    expect(cell(page, 0, 0)).to_have_text("mine")
    save(page)
    dialog.get_by_role("radio", name="name as yours").check()
    chosen(page, 5)
    assert table.row_history(0)["name"].to_pylist() == ["mine", "third", "second", "ann"]


def test_a_row_that_others_deleted_comes_back_only_by_choice(
    visit: Visiting, served: Served
) -> None:
    table = people(served, "gone")
    page = visit(f"{served.url}/#/tables/gone/rows", errors=True).page
    edit(page)
    put(page, 0, 0, "anna")
    put(page, 1, 0, "bobby")
    table.delete_rows([0, 1])
    save(page)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 rows changed meanwhile")
    first, second = (
        dialog.get_by_role("region", name="Row id 0"),
        dialog.get_by_role("region", name="Row id 1"),
    )
    expect(first).to_contain_text("deleted by others")
    first.get_by_role("radio", name="Add it again").check()
    second.get_by_role("radio", name="Leave it deleted").check()
    chosen(page, 4)
    assert now(table, "name", "age") == [("anna", 41), ("cat", None)]


def test_the_rows_are_read_at_the_version_that_refused_the_change(
    visit: Visiting, served: Served
) -> None:
    # Without it, the gateway may read some rows before it has polled and others after.
    table = people(served, "slow")
    page = visit(f"{served.url}/#/tables/slow/rows", errors=True).page
    edit(page)
    put(page, 0, 0, "anna")
    put(page, 1, 0, "bobby")
    version = table.delete_rows([0, 1]).version
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    save(page)
    expect(page.get_by_role("dialog")).to_contain_text("2 rows changed meanwhile")
    histories = [url for url in asked if "/history" in url]
    assert len(histories) == 2
    assert all(url.endswith(f"?min_version={version}") for url in histories), histories


def test_a_row_that_is_to_be_deleted_and_was_changed(visit: Visiting, served: Served) -> None:
    table = items(served, "deleted")
    page = visit(f"{served.url}/#/tables/deleted/rows", errors=True).page
    edit(page)
    for row in (0, 1):
        cell(page, row, 2).click()
        page.get_by_role("button", name="Delete row").click()
    table.set_cells(
        [{"shop": "a", "item": "nut", "n": 5}, {"shop": "b/c", "item": 'bolt "x"', "n": 6}]
    )
    save(page)
    dialog = page.get_by_role("dialog")
    first = dialog.get_by_role("region", name="Row a, nut")
    shows(first, "n", "1", "5", "–")
    expect(first.get_by_role("radio", name="Keep the row as it is now")).to_be_checked()
    dialog.get_by_role("button", name="All mine").click()
    first.get_by_role("radio", name="Keep the row as it is now").check()
    chosen(page, 4)
    assert now(table, "shop", "n") == [("a", 5)]


def test_a_new_key_that_exists_is_reported_and_stays_in_the_grid(
    visit: Visiting, served: Served
) -> None:
    table = items(served, "twice")
    page = visit(f"{served.url}/#/tables/twice/rows", errors=True).page
    edit(page)
    page.get_by_role("button", name="Add row").click()
    for text in ("a", "nut", "9"):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    save(page)
    expect(page.locator(".failure-text")).to_contain_text("1 of the keys exist already")
    expect(summary(page)).to_have_text("1 row added")
    assert table.poll() == 2
    table.delete_rows(pa.table({"shop": ["a"], "item": ["nut"]}))
    save(page)
    expect(page.locator(".saved")).to_have_text("Saved as version 4.")


def test_names_and_values_with_markup_stay_text_in_every_dialog(
    visit: Visiting, served: Served
) -> None:
    schema = pa.schema([(EVIL, pa.string()), ("n", pa.int64())])
    table = bs.create(url_of(served, "evil"), schema=schema, row_ids=True)
    table.append(pa.table([[EVIL], [1]], schema))
    served.gateway.tables.poll_now()
    made = visit(f"{served.url}/#/tables/evil/rows", errors=True)
    page, dialog = made.page, made.page.get_by_role("dialog")
    edit(page)
    put(page, 0, 0, f"mine {EVIL}")
    table.set_cells([{"_row_id": 0, EVIL: f"theirs {EVIL}"}], message=EVIL)
    save(page)
    expect(dialog.locator("td").nth(1)).to_have_text(f"theirs {EVIL}")
    expect(dialog.locator("tbody th")).to_have_text(EVIL)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Row history").click()
    expect(page.locator("[data-version='3']")).to_contain_text(f"update, {EVIL}")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Discard").click()
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("button", name="Alter table").click()
    expect(page.locator("[data-part=name]").first).to_have_value(EVIL)
    assert page.evaluate("window.hurt") is None
    assert page.locator(":is(#view-table, dialog) :is(img, script)").count() == 0
    assert made.refused() == []


def test_a_save_whose_response_was_lost_happens_once(visit: Visiting, served: Served) -> None:
    table = people(served, "lost")
    page = visit(f"{served.url}/#/tables/lost/rows", errors=True).page
    edit(page)
    page.get_by_role("button", name="Add row").click()
    page.keyboard.type("dan")
    page.keyboard.press("Enter")
    lost: list[int] = []

    def lose(route: Route) -> None:
        lost.append(route.fetch().status)
        if len(lost) == 1:
            route.abort()
        else:
            route.continue_()

    page.route("**/v1/tables/lost/rows*", lose)
    save(page)
    expect(page.locator(".saved")).to_have_text("Saved as version 3.")
    assert lost[:1] == [200]
    assert [name for (name,) in now(table, "name")].count("dan") == 1
