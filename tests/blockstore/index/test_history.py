"""Time travel: versions, times and entries, under the double look."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.errors import Corrupt, NotFound, VersionExpired
from blockstore.index.change import Draft
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.entry import Operation
from blockstore.index.log import Log
from blockstore.names import BOUNDARY, checkpoint_key, entry_key
from blockstore.world import World
from tests.blockstore.index.test_read import collect
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import NOW, Planned, append, ulid


@pytest.fixture
def states(bucket: MemoryBucket, world: World, log: Log) -> list:
    """The states of versions 1 to 70, a second apart; the first is not used."""
    assert isinstance(world.clock, ManualClock)
    found = [None, log.state]
    for number in range(69):
        world.clock.advance(1)
        log.commit(append(100 + number))
        found.append(log.state)
    return found


def test_every_version_reads_as_it_was(
    bucket: MemoryBucket, world: World, log: Log, states: list
) -> None:
    for version in (1, 2, 40, 63, 64, 65, 70):
        assert log.at(version) == states[version]
        assert Log(bucket, world).at(version) == states[version]


def test_a_version_that_others_have_just_written_is_found(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    reader = Log(bucket, world)
    assert reader.state.version == 1
    log.commit(append(50))
    assert reader.at(2) == log.state


@pytest.mark.parametrize("version", [-1, 0, 71])
def test_a_version_that_was_never_written_is_not_found(
    log: Log, states: list, version: int
) -> None:
    with pytest.raises(NotFound, match=f"no version {version}, expected one from 1 to 70"):
        log.at(version)


def test_as_of_is_the_last_version_at_or_before_the_time(log: Log, states: list) -> None:
    for seconds, version in ((0, 1), (0.5, 1), (1, 2), (38.999, 39), (39, 40), (1e6, 70)):
        assert log.as_of(NOW + int(seconds * 1000)).version == version
    with pytest.raises(
        NotFound,
        match=r"no version as of 2023-11-14T22:13:19\.999\+00:00: its first entry is newer",
    ):
        log.as_of(NOW - 1)
    with pytest.raises(NotFound, match="no version as of -1000000000000000000 ms"):
        log.as_of(-(10**18))


def test_what_was_collected_is_expired_and_the_oldest_left_is_named(
    bucket: MemoryBucket, log: Log, states: list
) -> None:
    collect(bucket, log, 66)
    for version in (1, 64, 66):
        with pytest.raises(VersionExpired, match="oldest version left is 67"):
            log.at(version)
    with pytest.raises(
        VersionExpired, match=r"as of 2023-11-14T22:14:20\.000\+00:00 .*oldest version left is 67"
    ):
        log.as_of(NOW + 60_000)
    with pytest.raises(VersionExpired):
        list(log.entries(first=60))
    for version in (67, 70):
        assert log.at(version) == states[version]
    assert log.as_of(NOW + 66_000).version == 67
    assert [entry.id for entry in log.entries()] == [67, 68, 69, 70]


def test_a_tagged_version_outlives_its_entries(
    bucket: MemoryBucket, log: Log, states: list
) -> None:
    write_checkpoint(bucket, states[40])
    log.commit(Planned(operation=Operation.TAG, commit=ulid(1), plan=Draft(tags={"q3": 40})))
    collect(bucket, log, 66)
    assert log.at(40) == states[40]
    bucket.delete([checkpoint_key(40)])
    with pytest.raises(Corrupt, match="'q3' pins version 40"):
        log.at(40)


def test_a_moment_whose_version_a_tag_pins_is_read_at_the_boundary_too(
    bucket: MemoryBucket, log: Log, states: list
) -> None:
    for version in (40, 66):
        write_checkpoint(bucket, states[version])
    pins = Draft(tags={"q2": 40, "q3": 66})
    log.commit(Planned(operation=Operation.TAG, commit=ulid(1), plan=pins))
    collect(bucket, log, 66)
    assert log.as_of(NOW + 65_000) == states[66]
    assert log.as_of(NOW + 65_999) == states[66]
    assert log.as_of(NOW + 66_000).version == 67
    # Whether there was another version between an older one and the moment is no longer known.
    for moment in (NOW + 39_000, NOW + 64_999):
        with pytest.raises(VersionExpired, match="oldest version left is 67"):
            log.as_of(moment)
    log.commit(Planned(operation=Operation.UNTAG, commit=ulid(2), plan=Draft(tags={"q3": None})))
    with pytest.raises(VersionExpired):
        log.as_of(NOW + 65_000)


def test_a_boundary_that_moves_meanwhile_expires_the_version(
    bucket: MemoryBucket, world: World, log: Log, states: list
) -> None:
    faulty = FaultyBucket(bucket)
    reader = Log(faulty, world)
    assert reader.state.version == 70
    moved = []

    def move(call: Call) -> None:
        if call.key == entry_key(30) and not moved:
            moved.append(call)
            collect(bucket, log, 66)

    faulty.after.append(move)
    with pytest.raises(VersionExpired, match="oldest version left is 67"):
        reader.at(40)
    assert moved


def test_history_names_a_missing_entry(bucket: MemoryBucket, log: Log, states: list) -> None:
    assert [entry.id for entry in log.entries()] == list(range(1, 71))
    assert [entry.id for entry in log.entries(first=5, last=7)] == [5, 6, 7]
    bucket.delete([entry_key(6)])
    with pytest.raises(Corrupt, match=r"index entry 6 .*is missing above the boundary 0"):
        list(log.entries(first=5, last=7))


def test_history_goes_on_from_a_boundary_that_moved_under_it(
    bucket: MemoryBucket, log: Log, states: list
) -> None:
    entries = log.entries()
    assert next(entries).id == 1
    collect(bucket, log, 66)
    bucket.put(BOUNDARY, b"66")
    rest = []
    with pytest.raises(VersionExpired):
        rest.extend(entry.id for entry in entries)
