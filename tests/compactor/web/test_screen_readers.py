"""The page of a compactor as a screen reader meets it: axe finds nothing wrong."""

from __future__ import annotations

from tests.compactor.web.conftest import Shown
from tests.compactor.web.test_page import opened
from tests.support.accessible import violations
from tests.support.browser import Visiting


def test_axe_finds_nothing_wrong(visit: Visiting, shown: Shown) -> None:
    page = opened(visit, shown, width=1440).page
    assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(50)
    assert violations(page) == []
