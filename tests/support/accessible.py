"""What a screen reader needs, by axe: the rules of WCAG 2.2 at its level AA, and its best
practices."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_AXE = Axe()
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def violations(page: Page, but: str = "") -> list[str]:
    """What axe finds wrong, ``but`` for one rule: each rule with its places and what it says of
    them."""
    options = {"runOnly": _RULES, "resultTypes": ["violations"]}
    found = _AXE.run(page, options=options).response
    assert found["passes"], "axe has looked at something"
    return [
        f"{one['id']}: {' '.join(map(str, node['target']))}: {node['failureSummary']}"
        for one in found["violations"]
        if one["id"] != but
        for node in one["nodes"]
    ]
