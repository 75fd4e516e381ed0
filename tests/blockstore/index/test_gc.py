"""Collection of the index (protocol 3.4): what it wants, what it deletes, and what it refuses to
touch."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.bucket.wrapper import ReadOnly, Wrapper
from blockstore.clock import ManualClock
from blockstore.errors import (
    BoundaryLost,
    Corrupt,
    Fenced,
    Invalid,
    Unavailable,
    VersionExpired,
)
from blockstore.format import Properties
from blockstore.format.definition import Definition
from blockstore.index import checkpoint as checkpoint_module
from blockstore.index.change import Draft, Tag, Untag
from blockstore.index.checkpoint import encode_checkpoint
from blockstore.index.checkpoint_name import name_of, read_hint
from blockstore.index.checkpoint_write import ensure_checkpoint
from blockstore.index.entry import Operation
from blockstore.index.epochs import claim
from blockstore.index.gc import (
    Collected,
    collect,
    doomed_checkpoints,
    doomed_entries,
    wanted_boundary,
)
from blockstore.index.log import Log, create
from blockstore.names import (
    BOUNDARY,
    CHECKPOINTS,
    INDEX,
    checkpoint_key,
    entry_key,
    parse_checkpoint,
    parse_entry,
)
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import SCHEMA, Planned, append, follow, ulid

HOUR = 3_600_000


@given(
    st.integers(0, 20),
    st.dictionaries(st.integers(1, 40), st.integers(0, 100)),
    st.integers(0, 100),
)
def test_the_boundary_that_is_wanted_has_an_old_successor_and_is_the_highest(
    boundary: int, times: dict[int, int], retention: int
) -> None:
    wanted = wanted_boundary(boundary, times.items(), now_ms=100, retention_ms=retention)
    old = {entry for entry, modified in times.items() if 100 - modified > retention}
    assert wanted == boundary or wanted + 1 in old
    assert wanted >= boundary
    assert not any(entry - 1 > wanted for entry in old)


@given(st.sets(st.integers(1, 30)), st.integers(0, 30), st.sets(st.integers(1, 30)))
def test_what_goes_lies_below_the_boundary_and_is_not_pinned(
    found: set[int], boundary: int, pinned: set[int]
) -> None:
    assert doomed_entries(found, boundary) == sorted(one for one in found if one <= boundary)
    gone = doomed_checkpoints(found, boundary, pinned)
    assert gone == sorted(one for one in found if one < boundary and one not in pinned)


def entries(bucket: MemoryBucket) -> list[int]:
    found = (parse_entry(info.key) for info in bucket.list(INDEX, recursive=False))
    return sorted(one for one in found if one is not None)


def checkpoints(bucket: MemoryBucket) -> list[int]:
    found = (parse_checkpoint(info.key) for info in bucket.list(CHECKPOINTS))
    return sorted(one for one in found if one is not None)


def test_versions_whose_successor_is_old_go_and_all_others_stay(
    bucket: MemoryBucket, world: World, aged: Log
) -> None:
    """Version 10's own successor, entry 11, is new: version 10 was the latest until now."""
    before = {version: aged.at(version) for version in range(10, 16)}
    assert collect(aged, world) == Collected(before=0, boundary=9, checkpoint=9, entries=9)
    assert entries(bucket) == list(range(10, 16))
    assert checkpoints(bucket) == [9]
    fresh = Log(bucket, world)
    assert {version: fresh.at(version) for version in range(10, 16)} == before
    with pytest.raises(VersionExpired, match="oldest version left is 10, the latest 15"):
        fresh.at(9)


def test_a_second_pass_finds_nothing_and_costs_little(
    bucket: MemoryBucket, world: World, aged: Log
) -> None:
    collect(aged, world)
    metered = Metered(bucket)
    again = Log(metered, world)
    again.poll()
    metered.reset()
    assert collect(again, world) == Collected(before=9, boundary=9)
    assert metered.counts == {"get": 5, "list": 2, "now_ms": 1}


def test_the_latest_entry_stays_however_old(
    bucket: MemoryBucket, world: World, clock: ManualClock, aged: Log
) -> None:
    clock.advance(1_000 * 3600)
    assert collect(aged, world).boundary == 14
    assert entries(bucket) == [15]
    clock.advance(1_000 * 3600)
    assert collect(aged, world) == Collected(before=14, boundary=14)
    assert Log(bucket, world).state.version == 15
    aged.commit(append(200))
    assert collect(aged, world).boundary == 14, "entry 16 is new"


def test_nothing_goes_before_its_time(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    for number in range(100, 109):
        log.commit(append(number))
    clock.advance(48 * 3600)
    assert collect(log, world) == Collected(before=0, boundary=0), "exactly as old is not older"
    clock.advance(0.001)
    assert collect(log, world).boundary == 9


def test_the_table_says_how_long_history_is_kept(
    bucket: MemoryBucket, world: World, clock: ManualClock
) -> None:
    properties = Properties.parse({"history_retention": "1h"})
    log = create(bucket, world, Definition.create(SCHEMA, sort_by=["key"], properties=properties))
    log.commit(append(10))
    log.commit(append(11))
    clock.advance(3601)
    assert collect(log, world).boundary == 2


@pytest.mark.parametrize("ahead_ms", [-HOUR, HOUR])
def test_ages_are_the_stores_own_whatever_this_machines_clock_says(
    bucket: MemoryBucket, clock: ManualClock, aged: Log, ahead_ms: int
) -> None:
    skewed = World.manual(now_ms=clock.now_ms() + ahead_ms)
    assert collect(Log(bucket, skewed), skewed).boundary == 9
    skewed = World.manual(now_ms=clock.now_ms() + 1_000 * HOUR)
    assert collect(Log(bucket, skewed), skewed).boundary == 9


def test_what_a_stalled_writer_left_below_goes_in_the_next_pass_and_stops_nothing(
    bucket: MemoryBucket, world: World, clock: ManualClock, aged: Log
) -> None:
    collect(aged, world)
    bucket.put(entry_key(3), b"a zombie")
    bucket.put(checkpoint_key(2), b"left behind")
    assert collect(aged, world) == Collected(before=9, boundary=9, entries=1, checkpoints=1)
    bucket.put(entry_key(4), b"another, fresh")
    clock.advance(49 * 3600)
    done = collect(aged, world)
    assert (done.before, done.boundary, done.entries) == (9, 14, 6)
    assert entries(bucket) == [15]


def test_tags_pin_their_checkpoints_and_untagged_ones_go(
    bucket: MemoryBucket, world: World, clock: ManualClock, aged: Log
) -> None:
    for version in (3, 5, 7):
        ensure_checkpoint(bucket, aged.at(version))
    aged.commit(Tag(commit=ulid(900), name="q3", version=5))
    pinned = aged.at(5)
    assert collect(aged, world).checkpoints == 2
    assert checkpoints(bucket) == [5, 9]
    assert Log(bucket, world).tagged("q3") == pinned
    aged.commit(Untag(commit=ulid(901), name="q3"))
    assert collect(aged, world).checkpoints == 1
    assert checkpoints(bucket) == [9]


def test_a_tag_set_between_the_advance_and_the_deletion_is_seen(
    bucket: MemoryBucket, world: World, aged: Log
) -> None:
    """The second read: the first state that the pass read does not have the tag."""
    ensure_checkpoint(bucket, aged.at(5))
    faulty = FaultyBucket(bucket)

    def tag(call: Call) -> None:
        if call.method == "put_if_match":
            aged.commit(Tag(commit=ulid(900), name="q3", version=5))

    faulty.before.append(tag)
    collect(Log(faulty, world), world)
    assert checkpoints(bucket) == [5, 9]


def test_other_names_are_left_alone(bucket: MemoryBucket, world: World, aged: Log) -> None:
    strays = [
        "index/0000000000000000000a.json",
        "index/1.json",
        "index/00000000000000000001.json.tmp",
        "index/old/00000000000000000001.json",
        "index/checkpoints/1.parquet",
        "index/checkpoints/00000000000000000001.json",
    ]
    for key in strays:
        bucket.put(key, b"?")
    assert collect(aged, world).boundary == 9
    there = {info.key for info in bucket.list()}
    assert there >= {*strays}


def test_a_checkpoint_that_was_there_is_compared_and_used(
    bucket: MemoryBucket, world: World, aged: Log
) -> None:
    ensure_checkpoint(bucket, aged.at(9))
    done = collect(aged, world)
    assert (done.boundary, done.checkpoint) == (9, None)


@pytest.mark.parametrize("wrong", ["another state", "damaged"])
def test_a_checkpoint_that_is_not_the_fold_stops_the_pass_and_nothing_is_deleted(
    bucket: MemoryBucket, world: World, aged: Log, wrong: str
) -> None:
    state = aged.at(9)
    other = replace(state, floor=ulid(1))
    data = encode_checkpoint(other if wrong == "another state" else state)
    bucket.put(checkpoint_key(9), data if wrong == "another state" else data[:-10])
    before = {info.key: bucket.get(info.key).data for info in bucket.list()}
    with pytest.raises(Corrupt, match="checkpoint"):
        collect(aged, world)
    assert {info.key: bucket.get(info.key).data for info in bucket.list()} == before


@pytest.mark.parametrize("strays", [[9], [8, 9], list(range(1, 10))])
def test_the_boundary_stops_below_a_checkpoint_that_another_history_left(
    bucket: MemoryBucket, world: World, clock: ManualClock, aged: Log, strays: list[int]
) -> None:
    """A writer that stalled while the table was made again wrote the checkpoint of before."""
    former = create(MemoryBucket(world.clock), world, aged.state.definition)
    for number in range(300, 309):
        former.commit(append(number))
    before = {version: aged.at(version) for version in range(9, 16)}
    for version in strays:
        bucket.put(checkpoint_key(version), encode_checkpoint(former.at(version)))
    below = min(strays) - 1
    assert collect(aged, world).boundary == below
    assert {version: Log(bucket, world).at(version) for version in range(9, 16)} == before
    clock.advance(49 * 3600)
    aged.commit(append(400))
    clock.advance(49 * 3600)
    aged.commit(append(401))
    assert collect(aged, world).boundary == 15
    assert checkpoints(bucket) == [15]
    assert len(Log(bucket, world).state.blocks) == 16


def test_a_checkpoint_in_other_bytes_of_the_same_state_is_as_good(
    bucket: MemoryBucket, world: World, aged: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another release of the Parquet library writes the same state in other bytes."""
    monkeypatch.setitem(checkpoint_module._COMPRESSION, "compression_level", 9)
    ensure_checkpoint(bucket, aged.at(9))
    monkeypatch.undo()
    assert bucket.get(checkpoint_key(9)).data != encode_checkpoint(aged.at(9))
    assert collect(aged, world).boundary == 9


def test_a_later_checkpoint_that_is_wrong_does_not_vouch_for_itself(
    bucket: MemoryBucket, world: World, aged: Log
) -> None:
    """The fold starts at the boundary, not at whatever checkpoint is in between."""
    bucket.put(checkpoint_key(6), encode_checkpoint(follow(aged.at(5), append(300))))
    state = aged.at(5)
    assert collect(aged, world).boundary == 9
    assert ulid(300) not in Log(bucket, world).at(10).blocks
    assert checkpoints(bucket) == [9]
    assert state.version == 5


@pytest.mark.parametrize("missing", [5, 9])
def test_a_missing_entry_stops_the_pass_and_nothing_is_deleted(
    bucket: MemoryBucket, world: World, aged: Log, missing: int
) -> None:
    bucket.delete([entry_key(missing)])
    left = entries(bucket)
    with pytest.raises(Corrupt, match=f"index entry {missing} .*nothing was deleted"):
        collect(aged, world)
    assert (entries(bucket), int(bucket.get(BOUNDARY).data)) == (left, 0)


def test_a_damaged_entry_stops_the_pass_and_names_the_table(
    bucket: MemoryBucket, world: World, aged: Log
) -> None:
    bucket.put(entry_key(5), b"{}")
    with pytest.raises(Corrupt, match=r"index entry 5 \(.*\) of memory://"):
        collect(aged, world)
    assert len(entries(bucket)) == 15


def test_a_missing_checkpoint_of_the_boundary_stops_the_pass(
    bucket: MemoryBucket, world: World, clock: ManualClock, aged: Log
) -> None:
    collect(aged, world)
    bucket.delete([checkpoint_key(9)])
    clock.advance(49 * 3600)
    with pytest.raises(
        Corrupt, match=r"00009\.parquet of memory:// is missing although the boundary is 9"
    ):
        collect(aged, world)
    assert entries(bucket) == list(range(10, 16))


@pytest.mark.parametrize("found", [None, b"", b"x", b"-1"])
def test_a_lost_boundary_stops_the_pass(
    bucket: MemoryBucket, world: World, aged: Log, found: bytes | None
) -> None:
    bucket.delete([BOUNDARY])
    if found is not None:
        bucket.put(BOUNDARY, found)
    with pytest.raises(BoundaryLost):
        collect(aged, world)
    assert len(entries(bucket)) == 15


def test_a_boundary_that_fell_stops_whoever_saw_it(
    bucket: MemoryBucket, world: World, aged: Log
) -> None:
    collect(aged, world)
    bucket.put(BOUNDARY, b"3")
    with pytest.raises(BoundaryLost, match="fell from 9 to 3"):
        collect(aged, world)
    assert entries(bucket) == list(range(10, 16))


def test_a_boundary_at_the_latest_entry_deletes_nothing(
    bucket: MemoryBucket, world: World, aged: Log
) -> None:
    ensure_checkpoint(bucket, aged.state)
    bucket.put(BOUNDARY, b"15")
    with pytest.raises(Corrupt, match="is 15 and the latest entry is 15"):
        collect(aged, world)
    assert len(entries(bucket)) == 15


@pytest.mark.parametrize("when", ["before", "after the advance"])
def test_a_collector_that_lost_its_role_deletes_nothing(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log, when: str
) -> None:
    held = claim(log, world, "compactor")
    for number in range(100, 109):
        log.commit(append(number))
    clock.advance(49 * 3600)
    log.commit(append(109))
    faulty = FaultyBucket(bucket)

    def take_over(call: Call) -> None:
        if call.method == "put_if_match":
            claim(Log(bucket, world), world, "compactor")

    faulty.after.append(take_over)
    if when == "before":
        claim(Log(bucket, world), world, "compactor")
    with pytest.raises(Fenced, match="epoch 2"):
        collect(Log(faulty, world), world, held=held)
    assert entries(bucket)[0] == 1
    assert not [call for call in faulty.calls if call.method == "delete"]


class Overwrites(Wrapper):
    """A store that ignores If-Match."""

    def refuses_stale_writes(self) -> bool | None:
        return None

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        return self.inner.put(key, data)


def test_a_store_that_lacks_if_match_is_not_collected_and_says_so_with_the_bytes_that_stay(
    bucket: MemoryBucket, world: World, aged: Log, caplog: pytest.LogCaptureFixture
) -> None:
    size = sum(
        info.size
        for info in bucket.list(INDEX, recursive=False)
        if (parse_entry(info.key) or 99) <= 9
    )
    with caplog.at_level(logging.WARNING):
        done = collect(Log(Overwrites(bucket), world), world)
    assert (done.boundary, done.entries, done.kept_bytes) == (0, 0, size)
    assert done.off is not None
    assert "does not refuse stale writes" in done.off
    assert (
        f"the index of memory:// is not collected: {done.off}; 9 entries of {size} bytes stay"
        in caplog.text
    )
    assert (len(entries(bucket)), checkpoints(bucket), int(bucket.get(BOUNDARY).data)) == (
        15,
        [],
        0,
    )


def test_a_store_that_lacks_if_match_and_has_nothing_to_collect_is_quiet(
    bucket: MemoryBucket, world: World, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert collect(Log(Overwrites(bucket), world), world) == Collected(before=0, boundary=0)
    assert caplog.text == ""


def test_a_bucket_for_reading_is_invalid(bucket: MemoryBucket, world: World, aged: Log) -> None:
    with pytest.raises(Invalid, match="reading only"):
        collect(Log(ReadOnly(bucket), world), world)


@pytest.mark.parametrize("prefix", [INDEX, CHECKPOINTS])
def test_a_listing_that_fails_decides_nothing(
    bucket: MemoryBucket, world: World, aged: Log, prefix: str
) -> None:
    faulty = FaultyBucket(bucket)
    collector = Log(faulty, world)
    collector.poll()

    def fail(call: Call) -> None:
        if (call.method, call.key) == ("list", prefix):
            raise Unavailable("the listing failed midway")

    faulty.after.append(fail)
    with pytest.raises(Unavailable):
        collect(collector, world)
    assert not faulty.writes


def test_the_hint_moves_up_to_a_boundary_that_has_passed_it(
    bucket: MemoryBucket, world: World, clock: ManualClock, log: Log
) -> None:
    for number in range(100, 170):
        log.commit(append(number))
    clock.advance(49 * 3600)
    log.commit(append(170))
    assert collect(log, world).boundary == 70
    assert read_hint(bucket) == name_of(70, bucket.get(checkpoint_key(70)).data)
    assert Log(bucket, world).state == log.state


def test_a_decision_that_has_grown_old_deletes_no_checkpoint(
    bucket: MemoryBucket, world: World, clock: ManualClock, aged: Log
) -> None:
    """A collector that stalls after its second read may have missed a tag."""
    ensure_checkpoint(bucket, aged.at(5))
    faulty = FaultyBucket(bucket)

    def stall(call: Call) -> None:
        if call.method == "delete":
            clock.advance(25 * 3600)

    faulty.before.append(stall)
    done = collect(Log(faulty, world), world)
    assert (done.entries, done.checkpoints) == (9, 0)
    assert checkpoints(bucket) == [5, 9]
    collect(aged, world)
    assert checkpoints(bucket) == [14], "the next pass decides again"


@pytest.mark.parametrize("k", range(1, 40))
def test_a_collector_that_another_overtakes_anywhere_does_no_harm(
    bucket: MemoryBucket, world: World, clock: ManualClock, aged: Log, k: int
) -> None:
    """A second collector runs a complete pass, an hour further on, before call k of the first."""
    aged.commit(Planned(operation=Operation.TAG, commit=ulid(900), plan=Draft(tags={"q3": 5})))
    ensure_checkpoint(bucket, aged.at(5))
    states = {version: aged.at(version) for version in range(15, 17)}
    faulty = FaultyBucket(bucket)

    def overtake(call: Call) -> None:
        if call.number == k:
            clock.advance(47 * 3600)
            aged.commit(append(400))
            clock.advance(2 * 3600)
            collect(Log(bucket, world), world)

    faulty.before.append(overtake)
    done = collect(Log(faulty, world), world)
    assert done.boundary in (0, 9, 15), "0: it found the entries gone that it would have looked at"
    collect(aged, world)
    fresh = Log(bucket, world)
    assert fresh.tagged("q3").version == 5
    if len(faulty.calls) >= k:
        assert entries(bucket) == [16, 17]
        assert fresh.at(16) == states[16]


def test_a_machine_that_slept_after_its_second_read_deletes_no_checkpoint(
    bucket: MemoryBucket,
    world: World,
    clock: ManualClock,
    aged: Log,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ensure_checkpoint(bucket, aged.at(5))
    faulty = FaultyBucket(bucket)
    monkeypatch.setattr(clock, "monotonic_s", lambda: 0.0)

    def sleep(call: Call) -> None:
        if call.method == "delete":
            clock.advance(25 * 3600)

    faulty.before.append(sleep)
    assert collect(Log(faulty, world), world).checkpoints == 0
    assert checkpoints(bucket) == [5, 9]
