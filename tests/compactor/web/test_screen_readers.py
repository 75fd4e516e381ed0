"""The page of a compactor as a screen reader meets it: axe finds nothing wrong."""

from __future__ import annotations

import pytest

from tests.compactor.web.conftest import Shown
from tests.compactor.web.test_page import opened
from tests.support.accessible import violations
from tests.support.browser import Visiting


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_wrong(visit: Visiting, shown: Shown, dark: bool, width: int) -> None:
    page = opened(visit, shown, dark=dark, width=width).page
    assert violations(page) == []
