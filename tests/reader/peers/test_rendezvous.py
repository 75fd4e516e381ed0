"""The owner of a key: the same for everyone, and hardly moved by who comes and goes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from blockstore.reader.peers import owner_of

MEMBERS = st.sets(st.text(min_size=1, max_size=30), min_size=1, max_size=8)
KEYS = st.lists(st.text(max_size=20), min_size=1, max_size=40)


@given(members=MEMBERS, key=st.text(max_size=20))
def test_the_owner_is_a_member_in_whatever_order_they_are_known(
    members: set[str], key: str
) -> None:
    found = owner_of(key, sorted(members))
    assert found in members
    assert found == owner_of(key, sorted(members, reverse=True))


@given(members=MEMBERS, keys=KEYS, joined=st.text(min_size=1, max_size=30))
def test_who_joins_takes_keys_and_moves_no_others(
    members: set[str], keys: list[str], joined: str
) -> None:
    for key in keys:
        before, after = owner_of(key, members), owner_of(key, members | {joined})
        assert after in (before, joined)


@given(members=MEMBERS, keys=KEYS, data=st.data())
def test_who_leaves_moves_its_own_keys_and_no_others(
    members: set[str], keys: list[str], data: st.DataObject
) -> None:
    left = data.draw(st.sampled_from(sorted(members)))
    if members == {left}:
        return
    for key in keys:
        before = owner_of(key, members)
        after = owner_of(key, members - {left})
        assert (after == before) if before != left else (after != left)


def test_shares_are_even() -> None:
    members = [f"http://10.0.0.{number}:8080" for number in range(1, 5)]
    owned = Counter(owner_of(f"table-{number}", members) for number in range(4_000))
    assert sorted(owned) == sorted(members)
    assert all(900 < count < 1_100 for count in owned.values()), owned
    fifth = "http://10.0.0.5:8080"
    moved = sum(
        owner_of(f"table-{number}", members) != owner_of(f"table-{number}", [*members, fifth])
        for number in range(4_000)
    )
    assert 700 < moved < 900, "a fifth of the tables"


def test_another_process_finds_the_same_owner() -> None:
    code = (
        "from blockstore.reader.peers.rendezvous import owner_of;"
        "print([owner_of(str(key), ['a', 'b', 'c', 'd']) for key in range(100)])"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert said.strip() == str([owner_of(str(key), ["a", "b", "c", "d"]) for key in range(100)])
