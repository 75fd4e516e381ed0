"""Statements of the console that change rows and tables: counted, asked for, run once, and never
because an address was opened.

The gateway says which SQL is no query, so the browser reports a refused request of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Locator, Page, Route

import blockstore as bs
from blockstore.errors import NotFound
from tests.reader.http.gateways import Served
from tests.reader.page.acts import answered, cell, console, expect, limits, run_js, write
from tests.reader.page.people import READER, gateway, items, now, people, reader, url_of
from tests.support.browser import Visiting


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with gateway(tmp_path_factory.mktemp("statements")) as one:
        yield one


def send(page: Page, sql: str) -> None:
    """Type a statement, and run it."""
    write(page, sql)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")


def said(page: Page, text: str) -> None:
    """The outcome of a statement."""
    expect(page.locator("#answer .success")).to_have_text(text)
    expect(page.locator("#run")).to_be_enabled()


def asked(page: Page, title: str) -> Locator:
    """The dialog that asks whether to run."""
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text(title)
    return dialog


def answer(page: Page, choice: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=choice, exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def names(served: Served, name: str) -> list[str]:
    """Its column ``name``, sorted."""
    found = bs.open(url_of(served, name)).snapshot().scan(columns=["name"]).to_table()
    return sorted(found["name"].to_pylist())


def test_a_small_change_runs_at_once_and_the_next_query_reads_it(
    visit: Visiting, served: Served
) -> None:
    people(served, "small")
    page = visit(f"{served.url}/#/console", errors=True).page
    send(page, "UPDATE small SET name = 'anna' WHERE age = 41")
    said(page, "Updated 1 row: table small, version 3.")
    send(page, "SELECT name FROM small ORDER BY name")
    answered(page)
    expect(cell(page, 0, 0)).to_have_text("anna")
    send(page, "DELETE FROM small WHERE age > 1000")
    said(page, "No row was changed.")
    send(page, "INSERT INTO small (name) VALUES ('dan'), ('eve')")
    # The DELETE, a job that found nothing to do, took version 4 for its batch.
    said(page, "Inserted 2 rows: table small, version 5.")


def test_many_rows_are_counted_and_asked_for(visit: Visiting, served: Served) -> None:
    table = people(served, "many")
    page = visit(f"{served.url}/#/console", errors=True).page
    limits(page, ask_above="0")
    send(page, "UPDATE many SET age = 1 WHERE name < 'c'")
    dialog = asked(page, "Change 2 rows?")
    expect(dialog).to_contain_text("2 rows to update")
    expect(dialog.locator("pre")).to_have_text("UPDATE many SET age = 1 WHERE name < 'c'")
    answer(page, "Do not run it")
    expect(page.locator(".state")).to_have_text("Not run: nothing was changed.")
    assert table.poll() == 2
    page.keyboard.press("Control+Enter")
    dialog = asked(page, "Change 2 rows?")
    expect(dialog.get_by_role("button", name="Do not run it")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".state")).to_have_text("Not run: nothing was changed.")
    page.locator("#run").click()
    asked(page, "Change 2 rows?")
    answer(page, "Run the statement")
    said(page, "Updated 2 rows: table many, version 3.")
    assert now(table, "name", "age") == [("ann", 1), ("bob", 1), ("cat", None)]


def test_a_plain_table_says_how_much_is_written_again(visit: Visiting, served: Served) -> None:
    table = bs.create(url_of(served, "plain"), schema=bs.typed_schema([("name", "string")]))
    for name in ("ann", "bob"):
        table.append(pa.table({"name": [name]}))
    served.gateway.tables.poll_now()
    page = visit(f"{served.url}/#/console", errors=True).page
    limits(page, ask_above="0")
    send(page, "DELETE FROM plain WHERE name = 'bob'")
    dialog = asked(page, "Change 1 row?")
    expect(dialog).to_contain_text("1 row to delete")
    expect(dialog).to_contain_text("1 block to write again")
    answer(page, "Run the statement")
    said(page, "Deleted 1 row: table plain, version 4.")
    assert names(served, "plain") == ["ann"]


def test_what_cannot_be_counted_is_always_asked_for(visit: Visiting, served: Served) -> None:
    table = people(served, "sum")
    page = visit(f"{served.url}/#/console", errors=True).page
    send(page, "BEGIN; UPDATE sum SET age = 5; DELETE FROM sum WHERE name = 'cat'; COMMIT")
    dialog = asked(page, "Run this statement?")
    expect(dialog).to_contain_text("cannot be counted")
    answer(page, "Run the statement")
    said(page, "Updated 3 rows, deleted 1 row: table sum, version 3.")
    assert now(table, "name", "age") == [("ann", 5), ("bob", 5)]
    send(page, "CREATE TABLE fresh (a INTEGER PRIMARY KEY)")
    answer(page, "Run the statement")
    said(page, "Done: table fresh, version 1.")
    expect(page.locator(".side-list summary", has_text="fresh")).to_be_visible()
    send(page, "DROP TABLE fresh")
    answer(page, "Run the statement")
    said(page, "Done: table fresh, version 2.")
    with pytest.raises(NotFound):
        bs.open(url_of(served, "fresh"))
    send(page, "SELECT * FROM fresh")
    expect(page.locator("#answer .failure-text")).to_contain_text("no table fresh")
    send(page, "CREATE TABLE fresh (a INTEGER PRIMARY KEY)")
    answer(page, "Run the statement")
    said(page, "Done: table fresh, version 3.")
    send(page, "SELECT * FROM fresh")
    answered(page)
    send(page, "TRUNCATE sum")
    said(page, "Deleted 2 rows: table sum, version 4.")


def test_an_address_runs_no_statement(visit: Visiting, served: Served) -> None:
    table = people(served, "link")
    page = visit(console(served.url, "DELETE FROM link"), errors=True).page
    expect(page.locator("#answer .failure-text")).to_contain_text("read it, then press Run")
    assert table.poll() == 2
    page.locator("#run").click()
    said(page, "Deleted 3 rows: table link, version 3.")


def test_the_past_is_not_changed(visit: Visiting, served: Served) -> None:
    table = people(served, "past")
    page = visit(console(served.url, "SELECT * FROM past", version=2), errors=True).page
    answered(page)
    send(page, "DELETE FROM past")
    expect(page.locator("#answer .failure-text")).to_contain_text("set the time to Now")
    assert table.poll() == 2


def test_what_is_wrong_is_marked_at_its_place(visit: Visiting, served: Served) -> None:
    table = people(served, "wrong")
    page = visit(f"{served.url}/#/console", errors=True).page
    send(page, "UPDATE wrong SET agex = 1")
    expect(page.locator("#answer .failure-text")).to_contain_text("at line 1, column 18")
    expect(page.locator("#editor .cm-wrong")).to_have_text("agex")
    send(page, "UPDATE wrong SET age = -1")
    expect(page.locator("#answer .failure-text")).to_contain_text("age >= 0")
    send(page, "CALL x()")
    answer(page, "Run the statement")
    expect(page.locator("#answer .failure-text")).to_contain_text("there is no CALL x")
    assert table.poll() == 2


def test_a_call_is_asked_for_and_says_its_version(visit: Visiting, served: Served) -> None:
    table = people(served, "called")
    page = visit(f"{served.url}/#/console", errors=True).page
    send(page, "CALL tag('called', 'first', 1)")
    answer(page, "Do not run it")
    assert table.poll() == 2
    send(page, "CALL tag('called', 'first', 1)")
    answer(page, "Run the statement")
    said(page, "Done: table called, version 3.")
    send(page, "CALL restore('called', 'first')")
    answer(page, "Run the statement")
    expect(page.locator("#answer .success")).to_have_text("Done: table called, version 4.")
    assert names(served, "called") == []
    send(page, "CALL compact('called')")
    answer(page, "Run the statement")
    said(page, "Done: table called, version 5.")


def test_a_statement_whose_answer_was_lost_runs_once(visit: Visiting, served: Served) -> None:
    table = items(served, "lost")
    page = visit(f"{served.url}/#/console", errors=True).page
    sent: list[int] = []

    def lose(route: Route) -> None:
        sent.append(route.fetch().status)
        if len(sent) == 1:
            route.abort()
        else:
            route.continue_()

    page.route("**/v1/statements*", lose)
    send(page, "UPDATE lost SET n = n + 1 WHERE item = 'nut'")
    said(page, "Updated 1 row: table lost, version 3.")
    assert len(sent) == 2
    assert now(table, "item", "n") == [('bolt "x"', 2), ("nut", 2)]
    send(page, "UPDATE lost SET n = n + 1 WHERE item = 'nut' ")
    said(page, "Updated 1 row: table lost, version 4.")
    page.locator("#run").click()
    said(page, "Updated 1 row: table lost, version 5.")


def test_cancel_ends_the_job_and_says_what_was_written(visit: Visiting, served: Served) -> None:
    table = people(served, "stopped")
    page = visit(f"{served.url}/#/console", errors=True).page
    # The first answer says that the job still runs, as that of a longer statement would.
    page.route("**/v1/statements*", lambda route: route.fulfill(json=running(route)))
    page.route("**/v1/jobs/*", hold_until_cancelled)
    send(page, "DELETE FROM stopped")
    expect(page.locator("#stop")).to_be_visible()
    expect(page.locator("#run")).to_be_disabled()
    page.keyboard.press("Control+Enter")
    page.locator("#stop").click()
    expect(page.locator("#answer .failure-text")).to_contain_text("cancelled")
    expect(page.locator("#run")).to_be_enabled()
    assert table.poll() == 2


def running(route: Route) -> dict[str, object]:
    """A job that has begun."""
    assert route.request.post_data_json == {"sql": "DELETE FROM stopped"}
    return {"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "kind": "statement", "state": "running"}


_cancelled: list[str] = []


def hold_until_cancelled(route: Route) -> None:
    """The job runs until its DELETE."""
    job = {"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "kind": "statement"}
    if route.request.method == "DELETE":
        _cancelled.append(route.request.url)
    route.fulfill(json={**job, "state": "cancelled" if _cancelled else "running"})


def test_a_token_that_may_not_write_is_refused(visit: Visiting, tmp_path: Path) -> None:
    with gateway(tmp_path, tokens=(reader(),)) as served:
        table = people(served, "kept")
        page = visit(f"{served.url}/#/console", errors=True).page
        page.locator("#token-field").fill(READER)
        page.locator("#token-field").press("Enter")
        page.locator("#limits").click()
        expect(page.get_by_label("Show at most")).to_be_visible()
        expect(page.get_by_label("Ask above")).to_be_hidden()
        page.locator("#limits").press("Escape")
        send(page, "DELETE FROM kept")
        expect(page.locator("#answer .failure-title")).to_have_text(
            "This token lacks the permission"
        )
        assert table.poll() == 2


def test_the_query_of_an_insert_is_computed_once(visit: Visiting, served: Served) -> None:
    table = people(served, "twice")
    page = visit(f"{served.url}/#/console", errors=True).page
    counted: list[str] = []
    page.on("request", lambda sent: counted.append(sent.post_data or ""))
    sql = "INSERT INTO twice (name, age) SELECT 'row ' || n, n FROM range(5000) t(n)"
    send(page, sql)
    dialog = asked(page, "Run this statement?")
    expect(dialog).to_contain_text("How many rows it inserts is known when it has run")
    expect(dialog.get_by_role("button", name="Do not run it")).to_be_focused()
    answer(page, "Run the statement")
    said(page, "Inserted 5,000 rows: table twice, version 3.")
    # The page asks for it as a query, which is refused before it runs; then a job computes it.
    assert [body for body in counted if "range(5000)" in body] == [
        body for body in counted if "INSERT INTO twice" in body
    ]
    assert not any("EXPLAIN" in body for body in counted), counted
    assert len(now(table, "name")) == 5003


def test_the_rows_of_an_insert_are_counted_on_demand(visit: Visiting, served: Served) -> None:
    table = people(served, "demand")
    page = visit(f"{served.url}/#/console", errors=True).page
    send(page, "INSERT INTO demand (name) SELECT 'row ' || n FROM range(1234) t(n)")
    dialog = asked(page, "Run this statement?")
    dialog.get_by_role("button", name="Count the rows").click()
    expect(dialog).to_contain_text("1,234 rows to insert")
    expect(dialog.get_by_role("button", name="Count the rows")).to_be_hidden()
    answer(page, "Do not run it")
    expect(page.locator(".state")).to_have_text("Not run: nothing was changed.")
    assert table.poll() == 2
    send(page, "INSERT INTO demand (name) SELECT nothing FROM demand")
    dialog = asked(page, "Run this statement?")
    dialog.get_by_role("button", name="Count the rows").click()
    expect(dialog.locator(".failure-text")).to_contain_text("nothing")
    answer(page, "Run the statement")
    expect(page.locator("#answer .failure-text")).to_contain_text("nothing")
    expect(page.locator("#run")).to_be_enabled()
    assert table.poll() == 2


@pytest.mark.parametrize(
    ("sql", "does"),
    [
        ("INSERT INTO t SELECT 1", True),
        ("-- INSERT\ninsert into t (a) FROM u", True),
        ("/* why */ INSERT INTO t TABLE u", True),
        ("WITH x AS (VALUES (1)) INSERT INTO t SELECT * FROM x", True),
        ("INSERT INTO t SELECT 1 ON CONFLICT DO NOTHING", True),
        ("INSERT INTO t VALUES (1), (2)", False),
        ("INSERT INTO t VALUES ('select from')", False),
        ('INSERT INTO t ("from") VALUES (1) -- select', False),
        ("UPDATE t SET a = (SELECT 1)", False),
        ("DELETE FROM t WHERE a = 'insert into t select'", False),
        ("BEGIN; INSERT INTO t SELECT 1; COMMIT", False),
        ("MERGE INTO t USING u ON a WHEN NOT MATCHED THEN INSERT VALUES (1)", False),
    ],
)
def test_an_insert_of_a_query_is_recognized(
    visit: Visiting, served: Served, sql: str, does: bool
) -> None:
    page = visit(f"{served.url}/#/console").page
    assert run_js(page, "edit/statement.js", "return m.insertsQuery(a);", sql) is does
