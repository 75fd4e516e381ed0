"""The page without a pointer: one journey from the token to signing out by keys alone. After each
key something has the focus, it is seen, and it is in sight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page

from blockstore.reader.http.tokens import Scope, Token, hashed
from tests.reader.http.gateways import Served
from tests.reader.page.acts import answered, cell, expect
from tests.reader.page.people import gateway, now, people
from tests.reader.page.pretended import Pretended
from tests.support.browser import Visiting

SECRET = "bsk_keys_only"
TOKEN = Token(name="keys", sha256=hashed(SECRET), scopes=frozenset({Scope.READ, Scope.WRITE}))
ENOUGH = 60
"""So many presses of Tab reach everything that one view has."""

FOCUSED = """() => {
  const one = document.activeElement;
  if (one === null || one === document.body) return {name: "", lost: true};
  const drawn = (element) => {
    const style = getComputedStyle(element);
    return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  };
  const shadowed = (element) => Boolean(element) && getComputedStyle(element).boxShadow !== "none";
  const box = one.getBoundingClientRect();
  const editor = one.closest(".editor");
  const name = one.getAttribute("aria-label") || one.labels?.[0]?.textContent ||
    one.textContent || one.id;
  return {
    lost: false, id: one.id, tag: one.tagName, role: one.getAttribute("role"),
    name: name.trim().slice(0, 60),
    seen: one.tagName === "MAIN" || drawn(one) || (editor !== null && drawn(editor)) ||
      shadowed(one.closest(".cell-editor")) || (one.matches(".grid") && shadowed(
        one.querySelector(".cell.at"))),
    inSight: box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth,
  };
}"""


@dataclass
class Keys:
    """A person who has a keyboard."""

    page: Page

    def press(self, key: str, *, moves: bool = False) -> None:
        """Press a key; something must have the focus then."""
        self.page.keyboard.press(key)
        if not moves:
            self.look()

    def look(self) -> dict[str, object]:
        """What has the focus."""
        found: dict[str, object] = self.page.evaluate(FOCUSED)
        assert not found["lost"], "nothing has the focus"
        assert found["seen"], f"the focus is not seen: {found}"
        assert found["inSight"], f"the focus is out of sight: {found}"
        return found

    def go(self, *, back: bool = False, **wanted: str) -> None:
        """Press Tab until what has the focus is what is wanted."""
        passed = []
        for _ in range(ENOUGH):
            self.page.keyboard.press("Shift+Tab" if back else "Tab")
            if self.page.evaluate("document.activeElement === document.body"):
                continue  # the end of the page: the browser's own bar is next
            found = self.look()
            if all(found[key] == value for key, value in wanted.items()):
                return
            passed.append(found["name"])
        raise AssertionError(f"{wanted} is not among {passed}")

    def open(self, **wanted: str) -> None:
        """Go to something, and press Enter on it."""
        self.go(**wanted)
        self.page.keyboard.press("Enter")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with gateway(tmp_path_factory.mktemp("keyboard"), tokens=(TOKEN,)) as one:
        yield one


def test_everything_from_the_token_to_signing_out_goes_by_keys_alone(
    visit: Visiting, served: Served
) -> None:
    table = people(served, "people")
    made = visit(f"{served.url}/", errors=True)  # a request without a token is an error
    page, keys = made.page, Keys(made.page)

    expect(page.locator("#token-field")).to_be_focused()
    page.keyboard.type(SECRET)
    page.keyboard.press("Enter")
    expect(page.locator("dialog.token")).not_to_be_visible()
    expect(page.locator(".side-list summary")).to_have_count(1)

    # A table, by the list of tables.
    keys.open(tag="A", name="Tables")
    expect(page.locator("#main")).to_be_focused()
    keys.open(tag="A", name="people")
    expect(page.get_by_role("heading", name="people", exact=True)).to_be_visible()
    keys.look()

    # A query, and its result.
    keys.open(tag="A", name="Console")
    keys.go(id="editor")
    keys.press("Control+a")
    page.keyboard.type("SELECT name, age FROM people ORDER BY name", delay=5)
    keys.press("Escape")
    keys.press("Control+Enter")
    answered(page)
    keys.look()
    keys.go(role="grid")
    for key in ("ArrowDown", "ArrowRight", "ArrowDown", "ArrowUp", "End", "Home", "Control+End"):
        keys.press(key)
    expect(cell(page, 2, 1)).to_have_class("cell right none at")
    keys.press("Enter")
    expect(page.locator("dialog.look")).to_be_visible()
    keys.press("Escape")
    expect(page.get_by_role("grid")).to_be_focused()

    # A download.
    keys.go(back=True, id="download")
    keys.press("Enter")
    keys.go(name="CSV")
    with page.expect_download() as waiting:
        keys.press("Enter")
    assert Path(waiting.value.path()).read_text().splitlines()[0] == '"name","age"'
    keys.press("Escape")
    expect(page.locator("#download")).to_be_focused()

    # The same as a job, which is listed, and its result.
    keys.press("Enter")
    keys.open(id="as-job")
    job = page.locator("[data-job]").first
    expect(job.get_by_role("button", name="Result")).to_be_visible()
    keys.look()
    keys.go(name="Result")
    with page.expect_download():
        keys.press("Enter")
    keys.look()
    keys.open(tag="SUMMARY", name="Record")
    expect(job.locator(".record")).to_be_visible()
    keys.look()

    # The rows of the table, and the history of one.
    keys.open(tag="A", name="Tables")
    keys.go(tag="A", name="people")
    keys.press("Enter", moves=True)
    expect(page.get_by_role("heading", name="people", exact=True)).to_be_visible()
    keys.open(tag="A", name="Rows")
    expect(page.get_by_role("grid", name="Rows of people")).to_be_visible()
    keys.look()
    keys.go(role="grid")
    keys.press("ArrowDown")
    keys.go(back=True, name="Row history")
    keys.press("Enter")
    expect(page.locator("dialog .version-list h3")).to_have_text(["Version 2"])
    keys.press("Tab")
    keys.press("Escape")
    assert keys.look()["name"] == "Row history"

    # A cell, edited and saved.
    keys.open(name="Edit")
    keys.look()
    keys.go(role="grid")
    keys.press("Home")
    keys.press("ArrowRight")
    keys.press("F2")
    keys.press("Control+a")
    page.keyboard.type("31")
    keys.press("Enter")
    expect(page.get_by_role("grid")).to_be_focused()
    expect(page.locator(".edit-summary")).to_have_text("1 cell changed in 1 row")
    keys.open(name="Save")
    expect(page.locator(".saved")).to_have_text("Saved as version 3.")
    keys.look()
    assert ("bob", 31) in now(table, "name", "age")
    keys.go(back=True, name="Done")
    keys.press("Enter")

    # A statement that changes rows, by the button.
    keys.open(tag="A", name="Console")
    keys.go(id="editor")
    keys.press("Control+a")
    page.keyboard.type("UPDATE people SET age = 42 WHERE name = 'ann'", delay=5)
    keys.press("Escape")
    keys.go(id="run")
    keys.press("Enter", moves=True)
    expect(page.locator(".success")).to_contain_text("Updated 1 row")
    expect(page.locator("#run")).to_be_focused()
    assert ("ann", 42) in now(table, "name", "age")

    # Signing out.
    keys.open(id="token")
    expect(page.locator("#token-field")).to_be_focused()
    keys.open(name="Forget token")
    assert page.evaluate("sessionStorage.length") == 0
    expect(page.locator("#token")).to_have_attribute("aria-label", "Token: none")
    expect(page.locator("#token-field")).to_be_focused()
    keys.press("Escape", moves=True)
    expect(page.locator("#token")).to_be_focused()
    keys.look()
    assert made.refused() == []


def test_lists_that_are_read_again_keep_the_focus(visit: Visiting, url: str) -> None:
    page = visit(f"{url}#/tables").page
    keys = Keys(page)
    again = "document.dispatchEvent(new Event('visibilitychange'))"
    for link in ("flights", "Query", "Rows", "Blocks"):
        keys.go(tag="A", name=link)
        where = page.evaluate("document.activeElement.href")
        mark = "document.activeElement.dataset.before = 'x'"
        page.evaluate(mark)
        page.evaluate(again)
        expect(page.locator("[data-before]")).to_have_count(0)
        keys.look()
        assert page.evaluate("document.activeElement.href") == where


def test_a_job_that_goes_on_keeps_the_focus_and_one_that_ends_gives_it_to_its_record(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(url).page
    keys = Keys(page)
    page.evaluate(
        """() => fetch("/v1/jobs", {method: "POST", body: JSON.stringify({kind: "query",
          sql: "SELECT 1"})})"""
    )
    (record,) = gateway.jobs.values()
    page.evaluate("location.hash = '#/jobs'")
    job = page.locator("[data-job]")
    expect(job).to_contain_text("queued")
    for number, name in enumerate(("Cancel", "Record")):
        keys.go(name=name)
        record |= {"state": "running", "progress": {"rows": 100 + number}}
        expect(job).to_contain_text(f"{100 + number} rows")
        assert keys.look()["name"] == name
    keys.go(back=True, name="Cancel")
    keys.press("Enter", moves=True)
    expect(job).to_contain_text("cancelled")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    assert keys.look()["name"] == "Record"
