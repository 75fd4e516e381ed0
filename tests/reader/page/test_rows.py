"""Rows are edited in their grid: every change is collected, and saved as one version."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Route

import blockstore as bs
from tests.reader.http.gateways import Served
from tests.reader.page.acts import cell, expect, nameless, run_js
from tests.reader.page.people import (
    BIG,
    READER,
    edit,
    gateway,
    items,
    now,
    people,
    put,
    reader,
    save,
    saved,
    summary,
    url_of,
)
from tests.support.browser import Visiting

HANDLE = {
    "id": "01JD0000000000000000000001",
    "name": "new.pdf",
    "content_type": "application/pdf",
    "bytes": 5,
    "sha256": "0" * 64,
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with gateway(tmp_path_factory.mktemp("rows")) as one:
        yield one


def test_cells_new_rows_and_deletions_are_saved_as_one_version(
    visit: Visiting, served: Served
) -> None:
    table = people(served, "edited")
    page = visit(f"{served.url}/#/tables/edited/rows").page
    expect(cell(page, 0, 6)).to_have_text(str(BIG))
    edit(page)
    put(page, 0, 6, str(BIG + 2))
    put(page, 0, 4, "1985-02-28")
    put(page, 0, 5, "2026-01-31 12:30")
    expect(summary(page)).to_have_text("3 cells changed in 1 row")
    expect(cell(page, 0, 6)).to_have_class("cell right edited")
    cell(page, 1, 0).click()
    page.get_by_role("button", name="Delete row").click()
    page.get_by_role("button", name="Add row").click()
    page.keyboard.type("dan")
    page.keyboard.press("Tab")
    page.keyboard.type("19")
    page.keyboard.press("Enter")
    expect(summary(page)).to_have_text("3 cells changed in 1 row, 1 row added, 1 row deleted")
    saved(page, 3)
    expect(page.locator(".pending")).to_be_hidden()
    expect(page.locator("#rows-state")).to_contain_text("3 rows")
    assert now(table, "name", "age", "big", "born", "seen") == [
        (
            "ann",
            41,
            BIG + 2,
            dt.date(1985, 2, 28),
            dt.datetime(2026, 1, 31, 12, 30, tzinfo=dt.UTC),
        ),
        ("cat", None, 3, None, None),
        ("dan", 19, 7, None, None),
    ]
    assert table.poll() == 3
    assert table.row_history(0)["_version"].to_pylist() == [3, 2]
    assert table.row_history(2)["_version"].to_pylist() == [2]


def test_null_and_an_empty_text_differ(visit: Visiting, served: Served) -> None:
    table = people(served, "nulls")
    page = visit(f"{served.url}/#/tables/nulls/rows").page
    edit(page)
    put(page, 0, 0, "")
    cell(page, 1, 0).click()
    page.get_by_role("grid").press("Delete")
    expect(cell(page, 0, 0)).to_have_text("")
    expect(cell(page, 1, 0)).to_have_text("null")
    cell(page, 2, 0).click()
    page.get_by_role("grid").press("Enter")
    nothing = page.get_by_role("button", name="null", exact=True)
    nothing.click()
    expect(nothing).to_have_attribute("aria-pressed", "true")
    nothing.click()
    page.keyboard.press("Enter")
    put(page, 1, 1, "")
    saved(page, 3)
    assert now(table, "name", "age") == [("", 41), ("", None), (None, None)]


def test_a_text_that_was_only_looked_at_keeps_its_line_ends(
    visit: Visiting, served: Served
) -> None:
    schema = pa.schema([("s", pa.string()), ("n", pa.int64())])
    table = bs.create(url_of(served, "ends"), schema=schema, row_ids=True)
    texts = ["one\r\ntwo", "a\rb", "", None]
    table.append(pa.table({"s": texts, "n": [1, 2, 3, 4]}, schema))
    served.gateway.tables.poll_now()
    page = visit(f"{served.url}/#/tables/ends/rows").page
    edit(page)
    for row in range(4):
        cell(page, row, 0).dblclick()
        expect(page.locator(".cell-editor textarea")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator(".cell-editor")).to_have_count(0)
    expect(page.locator(".edited")).to_have_count(0)
    put(page, 3, 1, "5")
    expect(summary(page)).to_have_text("1 cell changed in 1 row")
    saved(page, 3)
    assert set(now(table, "s", "n")) == set(zip(texts, [1, 2, 3, 5], strict=True))


def test_keys_move_take_and_leave(visit: Visiting, served: Served) -> None:
    people(served, "keys")
    page = visit(f"{served.url}/#/tables/keys/rows").page
    edit(page)
    grid = page.get_by_role("grid")
    cell(page, 0, 0).click()
    page.keyboard.type("xy")
    page.keyboard.press("Escape")
    expect(cell(page, 0, 0)).to_have_text("ann")
    expect(grid).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.type("4")
    page.keyboard.press("Enter")
    expect(cell(page, 0, 1)).to_have_text("4")
    expect(cell(page, 1, 1)).to_have_class("cell right at")
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    expect(cell(page, 1, 0)).to_have_class("cell at")
    expect(summary(page)).to_have_text("1 cell changed in 1 row")
    put(page, 0, 1, "41")
    expect(page.locator(".pending")).to_be_hidden()
    cell(page, 2, 3).click()
    page.keyboard.press("Enter")
    page.get_by_role("combobox", name="member, bool").select_option("true")
    page.keyboard.press("Tab")
    expect(cell(page, 2, 3)).to_have_text("true")
    page.get_by_role("button", name="Discard").click()
    expect(cell(page, 2, 3)).to_have_text("null")
    expect(page.locator(".pending")).to_be_hidden()


def test_what_is_no_value_is_shown_before_anything_is_sent(visit: Visiting, served: Served) -> None:
    table = people(served, "wrong")
    page = visit(f"{served.url}/#/tables/wrong/rows").page
    edit(page)
    put(page, 0, 1, "many")
    put(page, 1, 4, "2026-02-30")
    put(page, 2, 0, "longer than twelve")
    expect(cell(page, 0, 1)).to_have_attribute("aria-invalid", "true")
    save(page)
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("3 cells cannot be saved")
    expect(alert).to_contain_text("Row 1, age: expected a whole number")
    expect(alert).to_contain_text("Row 2, born: expected a date, such as 2026-01-31")
    expect(alert).to_contain_text("Row 3, name: expected at most 12 characters, found 18")
    assert table.poll() == 2


def test_what_the_gateway_refuses_is_shown_and_nothing_is_lost(
    visit: Visiting, served: Served
) -> None:
    table = people(served, "refused")
    page = visit(f"{served.url}/#/tables/refused/rows", errors=True).page
    edit(page)
    put(page, 0, 1, "-1")
    save(page)
    expect(page.locator(".failure-text")).to_contain_text("column 'age' is -1")
    expect(summary(page)).to_have_text("1 cell changed in 1 row")
    put(page, 0, 1, "1")
    saved(page, 3)
    assert now(table, "age") == [(1,), (30,), (None,)]


def test_rows_with_a_key_are_edited_by_it(visit: Visiting, served: Served) -> None:
    table = items(served, "stock")
    page = visit(f"{served.url}/#/tables/stock/rows").page
    edit(page)
    cell(page, 1, 1).click()
    expect(cell(page, 1, 1)).to_have_attribute("aria-readonly", "true")
    put(page, 1, 2, "20")
    page.get_by_role("button", name="Add row").click()
    for text in ("c", "nut", "7"):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    cell(page, 0, 0).click()
    page.get_by_role("button", name="Delete row").click()
    saved(page, 3)
    assert now(table, "shop", "item", "n") == [("b/c", 'bolt "x"', 20), ("c", "nut", 7)]


def test_rows_whose_key_is_bytes_are_edited_and_their_versions_shown(
    visit: Visiting, served: Served
) -> None:
    schema = pa.schema([("k", pa.binary()), ("n", pa.int64())])
    table = bs.create(url_of(served, "raw"), schema=schema, key="k")
    keys = [b"\x12\x34", bytes(range(256)) * 2]
    table.upsert(pa.table({"k": keys, "n": [1, 2]}, schema))
    served.gateway.tables.poll_now()
    page = visit(f"{served.url}/#/tables/raw/rows").page
    edit(page)
    for row in range(2):
        put(page, row, 1, "9")
    saved(page, 3)
    assert now(table, "k", "n") == sorted([(key, 9) for key in keys], key=repr)
    cell(page, 0, 1).click()
    page.get_by_role("button", name="Row history").click()
    expect(page.locator("[data-version='3']")).to_be_visible()


def test_changes_that_are_not_saved_stay(visit: Visiting, served: Served) -> None:
    people(served, "kept")
    page = visit(f"{served.url}/#/tables/kept/rows").page
    edit(page)
    put(page, 0, 0, "eve")
    page.locator("#view-table").get_by_role("link", name="Overview").click()
    expect(page.get_by_role("rowheader", name="score")).to_be_visible()
    page.locator("#nav").get_by_role("link", name="Jobs").click()
    page.evaluate("location.hash = '#/tables/kept/rows'")
    expect(cell(page, 0, 0)).to_have_text("eve")
    expect(summary(page)).to_have_text("1 cell changed in 1 row")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert")).to_contain_text("Save or discard the changes first")
    page.get_by_role("button", name="Discard").click()


def test_rows_that_arrive_late_take_no_changes_away(visit: Visiting, served: Served) -> None:
    people(served, "late")
    page = visit(f"{served.url}/#/tables/late/rows").page
    edit(page)
    held: list[Route] = []
    page.route("**/v1/query", lambda route: held.append(route))  # playwright takes no builtin
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".rows-place")).to_have_attribute("aria-busy", "true")
    put(page, 0, 0, "eve")
    held[0].continue_()
    expect(page.get_by_role("alert")).to_contain_text("Save or discard the changes first")
    expect(cell(page, 0, 0)).to_have_text("eve")
    page.unroute("**/v1/query")
    saved(page, 3)


def test_an_empty_table_takes_its_first_row(visit: Visiting, served: Served) -> None:
    table = bs.create(url_of(served, "empty"), schema=pa.schema([("n", pa.int64())]), row_ids=True)
    served.gateway.tables.poll_now()
    page = visit(f"{served.url}/#/tables/empty/rows").page
    expect(page.locator(".rows-place .empty")).to_have_text("No rows.")
    edit(page)
    for name in ("Edit cell", "Delete row"):
        page.get_by_role("button", name=name).click()
    page.get_by_role("button", name="Add row").click()
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    expect(page.locator(".rows-place .empty")).to_have_count(0)
    saved(page, 2)
    assert now(table, "n") == [(5,)]


def test_rows_are_found_by_a_condition(visit: Visiting, served: Served) -> None:
    people(served, "found")
    made = visit(f"{served.url}/#/tables/found/rows", errors=True)
    page = made.page
    expect(cell(page, 2, 0)).to_have_text("cat")
    page.get_by_label("Rows where (SQL)").fill("age > 35 -- older")
    page.keyboard.press("Enter")
    expect(page.locator("#rows-state")).to_contain_text("1 row")
    page.get_by_label("Rows where (SQL)").fill("nope = 1")
    page.keyboard.press("Enter")
    expect(page.locator(".failure-text")).to_contain_text("nope")
    assert made.refused() == []


def test_the_versions_of_a_row_are_shown_and_one_is_brought_back(
    visit: Visiting, served: Served
) -> None:
    table = people(served, "former")
    table.set_cells([{"_row_id": 0, "name": "anna", "big": BIG + 1}], message="married")
    table.delete_rows([1])
    served.gateway.tables.poll_now()
    page = visit(f"{served.url}/#/tables/former/rows").page
    cell(page, 0, 0).click()
    page.get_by_role("button", name="Row history").click()
    newest = page.locator("[data-version='3']")
    expect(newest).to_contain_text("married")
    expect(newest.locator("tr", has_text="name")).to_have_text("nameannanna")
    expect(newest.locator("tr", has_text="big")).to_contain_text(str(BIG + 1))
    page.get_by_role("button", name="Restore version 2").click()
    expect(summary(page)).to_have_text("2 cells changed in 1 row")
    saved(page, 5)
    assert table.row_history(0)["name"].to_pylist() == ["ann", "anna", "ann"]
    page.get_by_role("button", name="Row history").click()
    page.get_by_label("Row id").fill("1")
    page.keyboard.press("Enter")
    expect(page.locator("[data-version='4']")).to_contain_text("deleted")
    page.get_by_role("button", name="Restore version 2").click()
    expect(summary(page)).to_have_text("1 row added")
    saved(page, 6)
    assert now(table, "name", "big") == [("ann", BIG), ("bob", 2), ("cat", 3)]


def test_a_token_that_may_not_write_sees_no_editing(visit: Visiting, tmp_path: Path) -> None:
    with gateway(tmp_path, tokens=(reader(),)) as served:
        people(served, "seen")
        page = visit(f"{served.url}/#/tables/seen", errors=True).page
        page.locator("#token-field").fill(READER)
        page.keyboard.press("Enter")
        expect(page.get_by_role("rowheader", name="score")).to_be_visible()
        page.get_by_role("link", name="Rows", exact=True).click()
        expect(cell(page, 0, 0)).to_have_text("ann")
        expect(page.get_by_role("button", name="Row history")).to_be_visible()
        for name in ("Edit", "Alter table", "Drop table", "New table"):
            expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
        page.get_by_role("link", name="Tables", exact=True).click()
        expect(page.get_by_role("listitem")).to_have_count(1)
        expect(page.get_by_role("button", name="New table")).to_be_hidden()


def arrow(rows: pa.Table) -> bytes:
    """The rows as a stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue().to_pybytes())


def test_a_file_is_put_into_a_cell_and_taken_out(visit: Visiting, served: Served) -> None:
    was = {**HANDLE, "id": "01JD0000000000000000000000", "name": "old.txt"}
    rows = {
        "_row_id": [0],
        "_version": [2],
        "note": ["x"],
        "paper": pa.array([was], bs.file("f").type),
    }
    table = bs.create(
        url_of(served, "papers"),
        schema=pa.schema([("note", pa.string()), bs.file("paper")]),
        row_ids=True,
    )
    served.gateway.tables.poll_now()
    made = visit(f"{served.url}/#/jobs")
    page, sent = made.page, []

    def answer(route: Route) -> None:
        asked = route.request
        path = asked.url.removeprefix(served.url)
        sent.append((asked.method, path, asked.post_data_buffer))
        if path.endswith("/v1/query"):
            route.fulfill(
                body=arrow(pa.table(rows)), content_type="application/vnd.apache.arrow.stream"
            )
        elif asked.method == "POST":
            route.fulfill(json=HANDLE)
        elif asked.method == "PATCH":
            job = {
                "id": "J",
                "kind": "rows",
                "state": "done",
                "progress": {},
                "written": {"version": 1},
            }
            route.fulfill(json=job)
        else:
            route.fulfill(body=b"bytes", content_type="text/plain")

    for pattern in (
        "**/v1/query",
        "**/v1/tables/papers/files?**",
        "**/rows?**",
        "**/rows",
        "**/files/**",
    ):
        page.route(pattern, answer)
    page.evaluate("location.hash = '#/tables/papers/rows'")
    expect(cell(page, 0, 1)).to_have_text("old.txt (5 B)")
    cell(page, 0, 1).dblclick()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download").click()
    assert Path(waiting.value.path()).read_bytes() == b"bytes"
    assert waiting.value.suggested_filename == "old.txt"
    assert sent[-1][:2] == ("GET", "/v1/tables/papers/rows/0/files/paper?version=2")
    page.get_by_role("button", name="Close").click()
    edit(page)
    cell(page, 0, 1).click()
    page.keyboard.press("Enter")
    page.get_by_label("Another file").set_input_files(
        {"name": "new.pdf", "mimeType": "application/pdf", "buffer": b"%PDF"}
    )
    expect(cell(page, 0, 1)).to_have_text("new.pdf (5 B)")
    assert ("POST", "/v1/tables/papers/files?name=new.pdf", b"%PDF") in sent
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".saved")).to_be_visible()
    body = next(json.loads(data or b"") for method, _, data in sent if method == "PATCH")
    assert body["rows"] == [{"_row_id": 0, "_version": 2, "paper": HANDLE}]
    cell(page, 0, 1).click()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Take the file away").click()
    expect(cell(page, 0, 1)).to_have_text("null")
    assert table.poll() == 1
    page.get_by_role("button", name="Discard").click()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_phone_shows_it_all_and_every_control_has_a_name(
    visit: Visiting, served: Served, dark: bool
) -> None:
    table = people(served, f"phone{dark}")
    made = visit(
        f"{served.url}/#/tables/phone{dark}/rows",
        errors=True,
        width=390,
        height=844,
        touch=True,
        dark=dark,
    )
    page = made.page

    def fits(what: str) -> None:
        expect(page.locator("[aria-busy]")).to_have_count(0)
        assert made.overflow_px() <= 0, what
        assert nameless(page) == [], what

    edit(page)
    put(page, 0, 0, "anna")
    cell(page, 0, 0).tap()
    page.get_by_role("button", name="Edit cell").tap()
    expect(page.get_by_role("textbox", name="name, string")).to_be_focused()
    fits("the editor of a cell")
    page.keyboard.press("Escape")
    table.set_cells([{"_row_id": 0, "name": "a" * 12}])
    save(page)
    expect(page.get_by_role("dialog")).to_contain_text("1 row changed meanwhile")
    fits("a conflict")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Row history").tap()
    expect(page.locator("[data-version='2']")).to_be_visible()
    fits("the history of a row")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Row history")).to_be_focused()
    page.get_by_role("button", name="Discard").tap()
    page.get_by_role("link", name="Overview").tap()
    page.get_by_role("button", name="Alter table").tap()
    page.get_by_text("Rules and description").first.tap()
    fits("an alter")
    page.keyboard.press("Escape")
    page.locator("#nav").get_by_role("link", name="Tables").tap()
    page.get_by_role("button", name="New table").tap()
    fits("a new table")
    assert made.refused() == []


TEXTS = [
    ("9007199254740993", "int", "9007199254740993"),
    ("+0012", "int", "12"),
    ("-9223372036854775808", "int", "-9223372036854775808"),
    ("9223372036854775808", "int", None),
    ("-1", "uint8", None),
    ("1.5", "int", None),
    ("+.5e3", "double", "0.5e3"),
    ("-007.", "double", "-7"),
    ("nan", "double", '"NaN"'),
    ("-Infinity", "double", '"-Infinity"'),
    ("1,5", "double", None),
    ("12.50", "decimal(9, 2)", '"12.50"'),
    ("true", "bool", "true"),
    ("yes", "bool", None),
    ("2024-02-29", "date", '"2024-02-29"'),
    ("2023-02-29", "date", None),
    ("2026-01-31T12:30:00.123456Z", "timestamp[us, UTC]", '"2026-01-31T12:30:00.123456Z"'),
    ("2026-01-31 24:00", "timestamp[us]", None),
    (' a"b\n', "string", '" a\\"b\\n"'),
]


def test_a_text_is_exactly_a_value_or_refused(visit: Visiting, served: Served) -> None:
    page = visit(f"{served.url}/#/jobs").page
    found = run_js(
        page,
        "edit/column_types.js",
        "return a.map(([text, type]) => { const column = { type, kind: null, nullable: true }; "
        "return m.problemOf(text, column) === null ? m.fragmentOf(text, column) : null; });",
        [[text, kind] for text, kind, _ in TEXTS],
    )
    assert found == [fragment for _, _, fragment in TEXTS]
