"""Debian's Chromium, driven through playwright, for the tests of the pages.

- The shell without a window of its own (``chromium-headless-shell``) comes first: the same engine,
  and a page costs half of what it costs in the whole browser.
- One browser a module: playwright keeps an event loop running in the thread that started it, and
  whatever else runs in this thread afterwards (``asyncio.run``) must not meet it. A start takes a
  second.
- A page that was opened through ``visit`` fails its test at the end if it wrote an error to the
  console, threw, asked another host for anything, or was refused something by its content security
  policy.
- Without Chromium these tests are skipped, with the command that brings it; in CI that is a
  failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from playwright.sync_api import Error as PlaywrightError

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
]
LANGUAGE = {"LANG": "en_US.UTF-8", "LC_ALL": "en_US.UTF-8"}
"""What the browser's language is, whatever the machine's: the shell makes ``en-US@posix`` of none,
which is no language to a page."""

PATIENCE_MS = 60_000

_WATCH = """
window.refused = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.refused.push(`${event.violatedDirective} refused ${event.blockedURI || event.sourceFile}`);
});
"""


@dataclass(slots=True)
class Visit:
    """One page, and what went wrong on it."""

    page: Page
    origin: str
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def refused(self) -> list[str]:
        """What the content security policy kept the page from doing."""
        found: list[str] = self.page.evaluate("window.refused")
        return found

    def overflow_px(self) -> int:
        """By how much the page is wider than its window."""
        width: int = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return width

    def check(self) -> None:
        """Nothing went wrong."""
        assert self.errors == []
        assert self.foreign == []
        assert self.refused() == []


Visiting = Callable[..., Visit]


def chromium() -> Path | None:
    """Where Chromium is."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    return None if found is None else Path(found)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    path = chromium()
    if path is None:
        pytest.skip(
            "no Chromium: 'scripts/setup --browser' installs it, as does 'sudo apt-get install "
            "chromium'"
        )
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=path,
            args=ARGUMENTS,
            env={**os.environ, **LANGUAGE},
            timeout=PATIENCE_MS * 2,
        )
        try:
            yield started
        finally:
            started.close()


class Profiles:
    """The profiles of one browser, by what only a profile can have. Pages of one share what the
    browser keeps of scripts, so that a page takes half as long; and nothing else, for it is
    forgotten after each test."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._kept: dict[str, BrowserContext] = {}

    def of(self, **options: Any) -> BrowserContext:
        """The profile with these options."""
        key = repr(sorted(options.items()))
        if key not in self._kept:
            made = self._browser.new_context(reduced_motion="reduce", **options)
            made.set_default_timeout(PATIENCE_MS)
            made.add_init_script(_WATCH)
            self._kept[key] = made
        return self._kept[key]

    def forget(self, pages: Iterable[Page]) -> None:
        """Forget what pages have kept, and close them; a profile where that cannot be, too."""
        for page in pages:
            try:
                page.evaluate("localStorage.clear()")
            except PlaywrightError:
                self._drop(page.context)
        for context in self._kept.values():
            context.clear_cookies()
            for page in context.pages:
                page.close()

    def _drop(self, context: BrowserContext) -> None:
        self._kept = {key: one for key, one in self._kept.items() if one is not context}
        context.close()


@pytest.fixture(scope="module")
def profiles(browser: Browser) -> Profiles:
    """The profiles of the module's browser."""
    return Profiles(browser)


@pytest.fixture
def visit(profiles: Profiles) -> Iterator[Visiting]:
    """``visit(url, dark=…, width=…, height=…, touch=…)`` opens a page; ``errors=True`` where a test
    expects some. All are checked, and closed, at the end."""
    opened: list[tuple[Visit, bool]] = []

    def open_page(
        url: str,
        *,
        dark: bool = False,
        width: int = 1280,
        height: int = 900,
        touch: bool = False,
        errors: bool = False,
        **options: Any,
    ) -> Visit:
        page = profiles.of(has_touch=touch, **options).new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light")
        parts = urlsplit(url)
        made = Visit(page=page, origin=f"{parts.scheme}://{parts.netloc}")
        _watch(made)
        opened.append((made, errors))
        page.goto(url)
        return made

    try:
        yield open_page
        for made, expected in opened:
            if not expected:
                made.check()
    finally:
        profiles.forget(made.page for made, _ in opened)


def _watch(made: Visit) -> None:
    page = made.page

    def request(url: str) -> None:
        made.requests.append(url)
        if not url.startswith((f"{made.origin}/", "data:", "blob:")):
            made.foreign.append(url)

    page.on("request", lambda sent: request(sent.url))
    page.on(
        "console",
        lambda said: made.errors.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: made.errors.append(str(error)))
