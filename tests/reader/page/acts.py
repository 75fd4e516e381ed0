"""What people do on the page, and what they see there."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Page, expect

PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)

__all__ = [
    "PATIENCE_MS",
    "answered",
    "cell",
    "console",
    "expect",
    "limits",
    "nameless",
    "run",
    "run_js",
    "write",
]


def console(url: str, sql: str, **options: object) -> str:
    """The address that asks this."""
    return f"{url}#/console?{urlencode({'sql': sql, **options})}"


def write(page: Page, sql: str) -> None:
    """Put SQL in the editor, as one who types over what stood there."""
    page.locator("#editor .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(sql)


def limits(page: Page, *, rows: str | None = None, ask_above: str | None = None) -> None:
    """Choose how many rows are shown, or beyond how many a change is asked for."""
    page.locator("#limits").click()
    for label, value in (("Show at most", rows), ("Ask above", ask_above)):
        if value is not None:
            page.get_by_label(label).select_option(value)
    page.locator("#limits").press("Escape")


def run(page: Page, sql: str) -> None:
    """Ask, and wait for the answer's table."""
    write(page, sql)
    page.keyboard.press("Control+Enter")
    answered(page)


def answered(page: Page) -> None:
    """Wait until a result is shown and nothing runs."""
    expect(page.locator("#answer .answer-panel")).to_be_visible()
    expect(page.locator("#answer")).not_to_have_attribute("aria-busy", "true")


def cell(page: Page, row: int, column: int) -> Any:
    """The cell of a result, both counted from zero."""
    return page.locator(f"#cell-{row}-{column}")


def nameless(page: Page) -> list[str]:
    """The visible controls without a name."""
    found: list[str] = page.evaluate("""() => [...document.querySelectorAll(
        "button, input, select, textarea, a, summary, dialog, fieldset, [role=grid], nav")]
        .filter((element) => element.checkVisibility())
        .filter((element) => !(element.getAttribute("aria-label") ||
          element.textContent.trim() || element.labels?.length ||
            element.getAttribute("aria-labelledby")))
        .map((element) => element.outerHTML.slice(0, 120))""")
    return found


def run_js(page: Page, module: str, body: str, argument: object = None) -> Any:
    """Call ``body`` with a module of the page as ``m`` and an argument as ``a``."""
    find = "(await (await fetch('/')).text()).match(/\\/assets\\/[0-9a-f]+\\/page\\//)[0]"
    return page.evaluate(
        f"async (a) => {{ const m = await import({find} + '{module}'); {body} }}", argument
    )
