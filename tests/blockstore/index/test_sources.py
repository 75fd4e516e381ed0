"""The accounted sources behave as a plain set would."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.index import sources as module
from blockstore.index import ulids
from blockstore.index.sources import Sources
from tests.support.index_data import ulid

NUMBERS = st.sets(st.integers(0, 50))


@settings(deadline=None)
@given(st.lists(NUMBERS, max_size=6), NUMBERS, st.integers(0, 50), NUMBERS)
def test_it_is_a_set(groups: list[set[int]], asked: set[int], floor: int, keep: set[int]) -> None:
    found, model = Sources(), set()
    for group in groups:
        found, model = found.with_(map(ulid, group)), model | group
    assert found == Sources.of(map(ulid, model))
    assert len(found) == len(model)
    assert {number for number in range(51) if ulid(number) in found} == model
    many = [ulid(number) for number in sorted(asked)] * 2
    assert found.held(many) == [one for one in many if one in set(map(ulid, model))]
    above = found.above(ulid(floor), ulids.unique(ulids.from_texts(map(ulid, keep))))
    assert above == Sources.of(ulid(number) for number in model if number > floor or number in keep)


def test_many_are_looked_up_at_once_also_in_the_overlay() -> None:
    found = Sources.of(map(ulid, range(0, 400, 2))).with_([ulid(401)])
    asked = [ulid(number) for number in range(402)]
    assert found.held(asked) == [ulid(number) for number in (*range(0, 400, 2), 401)]


def test_a_large_overlay_becomes_the_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OVERLAY", 3)
    found = Sources()
    for number in range(30):
        found = found.with_([ulid(number)])
        assert len(found._added) <= 4
    assert len(found) == 30
