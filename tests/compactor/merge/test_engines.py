"""Engines by name."""

from __future__ import annotations

import sys

import pytest

from blockstore.compactor.merge import engines
from blockstore.compactor.merge.local import LocalEngine
from blockstore.errors import Invalid, MissingExtra


def test_the_local_engine_is_always_there() -> None:
    assert isinstance(engines.engine_named("local"), LocalEngine)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Invalid, match=r"engine is 'sprak', expected one of 'local', 'spark'"):
        engines.engine_named("sprak")


def test_an_engine_whose_package_is_missing_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtra, match=r"needs pyspark.*pip install 'blocklake\[spark\]'"):
        engines.engine_named("spark")
