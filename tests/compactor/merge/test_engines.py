"""Engines by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from blockstore.compactor.merge import engines
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.pieces import Pieces
from blockstore.errors import Invalid, MissingExtra


def test_the_local_engine_is_always_there() -> None:
    assert isinstance(engines.engine_named("local"), LocalEngine)


def test_an_engine_of_another_package_is_made_with_the_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offered(
        monkeypatch, EntryPoint("mine", "tests.compactor.merge.test_engines:made", engines.GROUP)
    )
    made_of = engines.engine_named("mine")
    assert isinstance(made_of, tuple)
    assert isinstance(made_of[0], Pieces)
    assert engines.engine_names() == ("local", "mine")


def test_a_name_that_nobody_offers_is_refused_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offered(monkeypatch, EntryPoint("spark", "nowhere:engine", engines.GROUP))
    with pytest.raises(Invalid, match=r"engine is 'sprak', expected one of 'local', 'spark'"):
        engines.engine_named("sprak")


def test_an_engine_whose_package_is_missing_says_how_to_bring_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offered(monkeypatch, EntryPoint("spark", "nowhere:engine", engines.GROUP))
    with pytest.raises(MissingExtra, match=r"needs nowhere.*pip install 'blocklake\[spark\]'"):
        engines.engine_named("spark")


def made(pieces: Pieces) -> object:
    return (pieces,)


def offered(monkeypatch: pytest.MonkeyPatch, *found: EntryPoint) -> None:
    def entry_points(*, group: str, name: str | None = None) -> EntryPoints:
        every = EntryPoints(found).select(group=group)
        return every if name is None else every.select(name=name)

    monkeypatch.setattr(engines, "entry_points", entry_points)
