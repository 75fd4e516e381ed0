"""Pictures of the page for the documentation:

``python -m tests.compactor.web.screenshots [FOLDER]``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from starlette.applications import Starlette

from blockstore.compactor.web import routes
from blockstore.service.serving import Server
from blockstore.world import World
from tests.blockstore.service.pages.scene import lived_in
from tests.compactor.web.process import Drawn, ShownProcess, busy
from tests.support.asking import HERE
from tests.support.browser import ARGUMENTS, chromium

PICTURES = Path(__file__).parents[3] / "docs" / "screenshots"


def main() -> None:
    """Dark, light, and on a phone."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    process = ShownProcess(World.real(), busy())
    app = Starlette(routes=routes(process, timelines=Drawn(lived_in(900))))
    with Server(app, HERE) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        for name, dark, width, height in (
            ("compactor-light", False, 1280, 1180),
            ("compactor-dark", True, 1280, 1180),
            ("compactor-phone", False, 390, 1250),
        ):
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if dark else "light",
                has_touch=width < 500,
                device_scale_factor=1,
            )
            page = context.new_page()
            page.goto(server.url)
            page.wait_for_selector("html[data-ready]")
            _choose(page)
            if width < 500:
                page.evaluate("document.getElementById('table').scrollIntoView()")
            page.screenshot(path=folder / f"{name}.png")
        browser.close()


def _choose(page: Page) -> None:
    """Select a block, so that its outline and its details are shown."""
    chart = page.locator(".timeline-chart")
    chart.focus()
    for key in ("ArrowDown", "ArrowDown", "End", "ArrowLeft", "Enter"):
        chart.press(key)
    page.wait_for_timeout(300)
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")


if __name__ == "__main__":
    main()
