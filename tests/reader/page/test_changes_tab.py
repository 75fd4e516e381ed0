"""The changes of a table in its tab: each version once, the newest on top, as they are made; what
is not shown is said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Page, Route

from tests.reader.http.gateways import Served
from tests.reader.page.acts import expect
from tests.reader.page.people import gateway, people
from tests.support.browser import Visiting


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with gateway(tmp_path_factory.mktemp("changes")) as one:
        yield one


def shown(page: Page, *columns: str) -> list[tuple[str, ...]]:
    """The rows on the page, by the names of columns."""
    heads = page.locator(".grid-head .cell.head .name").all_text_contents()
    lines = page.locator(".grid-row").all()
    rows = [one.locator(".cell:not(.gutter)").all_text_contents() for one in lines]
    tops = [one.evaluate("(row) => Number(row.getAttribute('aria-rowindex'))") for one in lines]
    places = [heads.index(name) for name in columns]
    return [tuple(row[at] for at in places) for _, row in sorted(zip(tops, rows, strict=True))]


def state(page: Page, text: str) -> None:
    expect(page.locator("#changes-state")).to_have_text(text)


def test_changes_appear_as_they_are_made(visit: Visiting, served: Served) -> None:
    table = people(served, "live")
    page = visit(f"{served.url}/#/tables/live/changes").page
    state(page, "Following at version 2: 3 changes, the newest on top.")
    table.set_cells([{"_row_id": 0, "age": 42}])
    state(page, "Following at version 3: 4 changes, the newest on top.")
    table.delete_rows([1, 2])
    state(page, "Following at version 4: 6 changes, the newest on top.")
    assert shown(page, "_change", "_version", "_row_id", "name", "age") == [
        ("delete", "4", "2", "cat", "null"),
        ("delete", "4", "1", "bob", "30"),
        ("update", "3", "0", "ann", "42"),
        ("insert", "2", "2", "cat", "null"),
        ("insert", "2", "1", "bob", "30"),
        ("insert", "2", "0", "ann", "41"),
    ]


def test_a_pause_asks_for_nothing_and_misses_nothing(visit: Visiting, served: Served) -> None:
    table = people(served, "paused")
    page = visit(f"{served.url}/#/tables/paused/changes").page
    state(page, "Following at version 2: 3 changes, the newest on top.")
    pause = page.get_by_role("button", name="Pause")
    pause.click()
    expect(pause).to_have_attribute("aria-pressed", "true")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    table.set_cells([{"_row_id": 0, "age": 42}])
    table.set_cells([{"_row_id": 0, "age": 43}])
    state(page, "Paused at version 2: 3 changes, the newest on top.")
    assert not [url for url in asked if "/changes" in url]
    pause.click()
    state(page, "Following at version 4: 5 changes, the newest on top.")
    assert shown(page, "_version", "age")[:2] == [("4", "43"), ("3", "42")]
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("rowheader", name="score")).to_be_visible()
    asked.clear()
    table.set_cells([{"_row_id": 0, "age": 44}])
    page.get_by_role("link", name="Changes").click()
    state(page, "Following at version 5: 6 changes, the newest on top.")
    assert len([url for url in asked if "/changes" in url]) <= 2


def test_another_column_begins_a_new_grid(visit: Visiting, served: Served) -> None:
    table = people(served, "wider")
    page = visit(f"{served.url}/#/tables/wider/changes", width=1900).page
    state(page, "Following at version 2: 3 changes, the newest on top.")
    table.alter(add=[pa.field("town", pa.string())])
    table.set_cells([{"_row_id": 0, "town": "Ulm"}])
    state(
        page,
        "Following at version 4: 1 change, the newest on top; 3 older ones are not shown.",
    )
    assert shown(page, "_version", "name", "town") == [("4", "ann", "Ulm")]


def test_the_newest_thousand_are_shown(visit: Visiting, served: Served) -> None:
    table = people(served, "long")
    page = visit(f"{served.url}/#/tables/long/changes").page
    rows = [{"name": f"n{number}"} for number in range(1_200)]
    table.append(pa.Table.from_pylist(rows, table.definition.schema))
    state(
        page,
        "Following at version 3: 1,000 changes, the newest on top; 203 older ones are not shown.",
    )
    assert shown(page, "name")[0] == ("n1199",)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": 410, "json": {"error": "version_expired"}}, "are no longer known"),
        (
            {"body": b"\0" * (17 << 20), "headers": {"X-Blockstore-Until": "2"}},
            "are more than this page shows (16.0 MiB)",
        ),
    ],
    ids=["expired", "large"],
)
def test_versions_that_cannot_be_shown_are_named(
    visit: Visiting, served: Served, answer: dict[str, Any], said: str, request: Any
) -> None:
    name = f"left_{request.node.callspec.id}"
    table = people(served, name)
    page = visit(f"{served.url}/#/tables", errors=True).page
    page.route("**/changes?after=0&*", lambda route: route.fulfill(**answer), times=1)
    page.goto(f"{served.url}/#/tables/{name}/changes")
    expect(page.locator(".notice-line")).to_have_text(
        f"The changes of versions 1 to 2 {said}. Later ones appear here."
    )
    state(page, "Following at version 2: no changes.")
    table.set_cells([{"_row_id": 0, "age": 1}])
    state(page, "Following at version 3: 1 change, the newest on top.")
    expect(page.locator(".notice-line")).to_have_count(0)


def test_a_gateway_that_is_gone_for_a_while_is_asked_again(visit: Visiting, served: Served) -> None:
    table = people(served, "away")
    page = visit(f"{served.url}/#/tables/away/changes", errors=True).page
    state(page, "Following at version 2: 3 changes, the newest on top.")
    failed: list[str] = []

    def fail(route: Route) -> None:
        failed.append(route.request.url)
        if len(failed) < 3:
            route.abort()
        else:
            route.continue_()

    page.route("**/changes?after=3*", fail)
    table.set_cells([{"_row_id": 0, "age": 1}])
    expect(page.locator(".failure-title")).to_have_text("Failed")
    table.set_cells([{"_row_id": 0, "age": 2}])
    state(page, "Following at version 4: 5 changes, the newest on top.")
    expect(page.locator(".failure-title")).to_have_count(0)
    assert len(failed) == 3
