"""The chain of entries: what follows, what is void, and what every reader makes of both."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import orjson
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import Corrupt, NewerFormat
from blockstore.format import features
from blockstore.index.chain import REQUIRED, Link
from blockstore.index.change import Create
from blockstore.index.checkpoint import decode_checkpoint, encode_checkpoint
from blockstore.index.entry import Entry, decode_entry, encode_entry
from blockstore.index.fold import VOID_KEPT, fold, void_commit
from blockstore.index.log import Log, create
from blockstore.index.state import State
from blockstore.names import entry_key
from blockstore.world import World
from tests.support.index_data import (
    DEFINITION,
    append,
    block,
    created,
    entry_of,
    follow,
    history,
    ulid,
)

CREATE = Create(commit=ulid(0), definition=DEFINITION)


def through_bytes(entry: Entry) -> Entry:
    return decode_entry(encode_entry(entry), entry_id=entry.id)


def of_an_earlier_release(entry: Entry) -> Entry:
    """The entry as releases before 0.2 wrote it."""
    return through_bytes(replace(entry, prev=None, requires=()))


def test_the_digest_covers_every_entry_below() -> None:
    state, chain = State.EMPTY, bytes(32)
    for entry in history(7, 30):
        data = encode_entry(entry)
        state = fold(state, decode_entry(data, entry_id=entry.id))
        raw = hashlib.sha256(data).digest()
        chain = hashlib.sha256(chain + raw).digest()
        assert state.last == Link(entry.commit, raw.hex(), chain.hex())


@pytest.mark.parametrize("wrong", ["commit", "sha256", "chain", "missing"])
def test_an_entry_that_does_not_name_the_one_below_is_void_and_changes_nothing_but_the_number(
    wrong: str,
) -> None:
    state = follow(created(), append(1))
    entry = entry_of(state, append(2))
    assert entry.prev is not None
    other = {"commit": ulid(77), "sha256": "ab" * 32, "chain": "cd" * 32}
    prev = None if wrong == "missing" else replace(entry.prev, **{wrong: other[wrong]})
    after = fold(state, through_bytes(replace(entry, prev=prev)))
    assert (after.version, after.void) == (3, (3,))
    assert after.commits.find(entry.commit) is None
    assert after.commits.at(3) == void_commit(3)
    assert replace(after, version=2, void=(), last=state.last, commits=state.commits) == state
    again = fold(after, through_bytes(entry_of(after, append(2))))
    assert (again.version, again.void, again.commits.find(entry.commit)) == (4, (3,), 4)


def test_two_stale_entries_on_top_of_each_other_fit_each_other_and_still_not_this_history() -> None:
    base = follow(created(), append(1))
    old = follow(base, append(2))
    stale = [entry_of(old, append(3))]
    stale.append(entry_of(fold(old, stale[0]), append(4)))
    here = follow(base, append(9))
    for entry in stale:
        here = fold(here, through_bytes(entry))
    assert here.void == (4, 5)
    assert here.blocks.ulids() == [ulid(1), ulid(9)]


def test_a_checkpoint_remembers_the_chain_and_what_was_void() -> None:
    state = follow(created(), append(1))
    state = fold(state, through_bytes(replace(entry_of(state, append(2)), prev=Link(ulid(5)))))
    found = decode_checkpoint(encode_checkpoint(state), version=state.version)
    assert found == state
    assert (found.last, found.void) == (state.last, (3,))


def test_so_many_void_entries_are_remembered_and_no_more() -> None:
    state = replace(follow(created(), append(1)), void=tuple(range(1, VOID_KEPT + 1)))
    after = fold(state, through_bytes(replace(entry_of(state, append(2)), prev=None)))
    assert len(after.void) == VOID_KEPT
    assert after.void[-1] == 3


def test_entries_of_earlier_releases_count_until_the_first_that_names_the_one_below() -> None:
    state = State.EMPTY
    state = fold(state, of_an_earlier_release(entry_of(state, CREATE)))
    for number in range(1, 4):
        state = fold(state, of_an_earlier_release(entry_of(state, append(number))))
    assert (state.last, state.void) == (Link(ulid(500_003)), ())
    first = entry_of(state, append(4))
    assert (first.prev, first.requires) == (Link(ulid(500_003)), (REQUIRED,))
    state = fold(state, through_bytes(first))
    assert state.last.chain
    assert state.requires == (REQUIRED,)
    late = fold(state, of_an_earlier_release(entry_of(state, append(5))))
    assert late.void == (6,)
    assert entry_of(late, append(6)).requires == ()


def test_a_checkpoint_of_an_earlier_release_leads_to_the_same_links_as_its_entries() -> None:
    state = fold(State.EMPTY, of_an_earlier_release(entry_of(State.EMPTY, CREATE)))
    state = fold(state, of_an_earlier_release(entry_of(state, append(1))))
    assert (
        decode_checkpoint(encode_checkpoint(state), version=2).last
        == state.last
        == Link(ulid(500_001))
    )


def test_a_first_entry_that_names_one_below_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="names an entry below it"):
        fold(State.EMPTY, through_bytes(replace(entry_of(State.EMPTY, CREATE), prev=Link(ulid(1)))))


def test_a_release_that_does_not_know_the_chain_refuses_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = entry_of(State.EMPTY, CREATE)
    monkeypatch.setattr(features, "KNOWN", frozenset())
    with pytest.raises(NewerFormat, match=r"'chain'.*0\.2"):
        through_bytes(entry)


@pytest.mark.parametrize("prev", [{}, {"commit": "x"}, {"commit": ulid(1), "sha256": "00"}, "x", 7])
def test_a_garbled_link_is_corrupt(prev: object) -> None:
    value = orjson.loads(encode_entry(entry_of(created(), append(1))))
    value["prev"] = prev
    with pytest.raises(Corrupt):
        decode_entry(orjson.dumps(value), entry_id=2)


def test_an_unhashed_entry_has_no_link_that_a_chain_could_go_on_from() -> None:
    assert replace(entry_of(created(), append(1)), prev=None).link_after(Link("")).chain == ""


def test_versions_times_and_entries_pass_over_what_is_void(
    bucket: MemoryBucket, world: World
) -> None:
    log = create(bucket, world, DEFINITION)
    for number in (1, 2):
        world.clock.sleep(1)
        log.commit(append(number))
    stale = replace(
        entry_of(log.state, append(50), time_ms=world.clock.now_ms() + 10**9), prev=Link(ulid(5))
    )
    bucket.put_if_absent(entry_key(4), encode_entry(stale))
    world.clock.sleep(60)
    log.commit(append(3))
    fresh = Log(bucket, world)
    assert fresh.state == log.state
    assert (fresh.state.version, fresh.state.void) == (5, (4,))
    assert [entry.id for entry in fresh.entries()] == [1, 2, 3, 5]
    assert list(fresh.entries(4, 4)) == []
    assert fresh.at(4).blocks.ulids() == fresh.at(3).blocks.ulids() == [ulid(1), ulid(2)]
    moments = [fresh.at(version).time_ms for version in range(1, 6)]
    assert moments == sorted(moments)
    for version in (1, 3, 5):
        assert fresh.as_of(moments[version - 1]).blocks.ulids() == fresh.at(version).blocks.ulids()
    assert fresh.as_of(moments[4] - 1).blocks.ulids() == [ulid(1), ulid(2)]


def test_the_same_append_after_a_void_entry_of_its_own_is_applied_once(
    bucket: MemoryBucket, world: World
) -> None:
    """Its commit id in a void entry says nothing about whether it was done."""
    log = create(bucket, world, DEFINITION)
    change = append(1)
    stale = replace(entry_of(log.state, change), prev=Link(ulid(5)))
    bucket.put_if_absent(entry_key(2), encode_entry(stale))
    assert log.commit(change).version == 3
    assert log.commit(change).already
    assert [one.ulid for one in Log(bucket, world).state.blocks] == [block(1).ulid]
