"""Leaves of a few items, so that small tables have several of them."""

from __future__ import annotations

import pytest

from blockstore.index.tree import grow
from blockstore.index.tree.split import Rule

SMALL_BLOCKS = Rule(bits=2, most=8)
SMALL_SOURCES = Rule(bits=2, most=8)


@pytest.fixture(autouse=True)
def small_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all tests here."""
    monkeypatch.setattr(grow, "BLOCKS", SMALL_BLOCKS)
    monkeypatch.setattr(grow, "SOURCES", SMALL_SOURCES)
