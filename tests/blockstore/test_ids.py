from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.clock import ManualClock
from blockstore.ids import MAX_ULID, MIN_ULID, Ids, ulid_at, ulid_time_ms
from blockstore.names import is_ulid


@given(st.integers(min_value=0, max_value=2**48 - 1))
def test_a_ulid_carries_its_time(now_ms: int) -> None:
    ulid = Ids.seeded(ManualClock(now_ms), 1).ulid()
    assert is_ulid(ulid)
    assert ulid_time_ms(ulid) == now_ms
    assert ulid_at(now_ms) <= ulid <= MAX_ULID
    assert ulid >= MIN_ULID


@given(
    st.text(max_size=27)
    | st.text(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", min_size=26, max_size=26
    )
)
def test_the_time_of_what_is_no_ulid_is_none(text: str) -> None:
    if is_ulid(text):
        assert ulid_at(ulid_time_ms(text))[:10] == text[:10]
    elif any(letter not in "0123456789ABCDEFGHJKMNPQRSTVWXYZ" for letter in text[:10]) or not text:
        with pytest.raises(ValueError):
            ulid_time_ms(text)


def test_a_ulid_is_its_bits_in_base_32_the_highest_first() -> None:
    assert ulid_at(1_469_918_176_385) == "01ARYZ6S41" + "0" * 16
    assert ulid_at(0) == MIN_ULID
    bits = int(
        Ids.seeded(ManualClock(0), 3)
        .ulid()
        .translate(str.maketrans("JKMNPQRSTVWXYZ", "ijklmnopqrstuv")),
        32,
    )
    assert bits == Random(3).getrandbits(80)
    for time_ms in (-1, 2**48):
        with pytest.raises(OverflowError):
            ulid_at(time_ms)


def test_later_ulids_sort_later() -> None:
    clock = ManualClock()
    ids = Ids.seeded(clock, 7)
    drawn = []
    for _ in range(50):
        drawn.append(ids.ulid())
        clock.advance(0.001)
    assert drawn == sorted(drawn)
    assert len(set(drawn)) == 50


def test_the_same_seed_draws_the_same() -> None:
    one, two = (Ids.seeded(ManualClock(), 3) for _ in range(2))
    assert [one.ulid(), one.token(), one.uniform(0, 1)] == [
        two.ulid(),
        two.token(),
        two.uniform(0, 1),
    ]
    assert Ids.seeded(ManualClock(), 4).ulid() != Ids.seeded(ManualClock(), 3).ulid()


def test_unseeded_ids_differ_in_one_millisecond() -> None:
    ids = Ids(ManualClock())
    assert len({ids.ulid() for _ in range(1000)}) == 1000
