"""Reading the index cold and as a poll (protocol 3.5): what it costs, and what it refuses."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.bucket.wrapper import ReadOnly
from blockstore.errors import BoundaryLost, Corrupt, Invalid, NewerFormat, NotFound
from blockstore.format.document import sealed
from blockstore.format.sources import encode_sources
from blockstore.index.added import AddedBlock
from blockstore.index.change import Append, Draft
from blockstore.index.checkpoint import _StoredBulk
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.entry import Operation, encode_entry
from blockstore.index.log import Log, create
from blockstore.index.presence import exists
from blockstore.index.tags import tag
from blockstore.names import BOUNDARY, HINT, checkpoint_key, entry_key, object_key, sources_path
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import DEFINITION, Planned, append, block, entry_of, ulid


def grow(log: Log, count: int, start: int = 100) -> None:
    for number in range(start, start + count):
        log.commit(append(number))


def collect(bucket: MemoryBucket, log: Log, boundary: int) -> None:
    """What the collector does: a checkpoint at the new boundary, then the boundary, then the
    deletion."""
    write_checkpoint(bucket, log.at(boundary))
    bucket.put(BOUNDARY, str(boundary).encode())
    bucket.delete(entry_key(entry) for entry in range(1, boundary + 1))


@pytest.fixture(autouse=True, params=[None, 3], ids=["one page", "pages cut off"])
def page(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """Each test reads an index whose keys fit the first page, and one whose keys do not."""
    if request.param is not None:
        monkeypatch.setattr("blockstore.index.listing._PAGE", request.param)
    return request.param


def test_a_cold_read_costs_five_requests_and_the_entries_from_the_checkpoint_on(
    bucket: MemoryBucket, world: World, log: Log, page: int | None
) -> None:
    """Two listings more where the first page does not hold all."""
    grow(log, 70)
    metered = Metered(bucket)
    assert Log(metered, world).state == log.state
    assert metered.counts == {"get": 4 + 8, "list": 1 if page is None else 3}


def test_a_page_that_was_listed_before_the_boundary_moved_is_not_relied_on(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """The page, the hint and the boundary are requested at once: here the page is the first, and
    everything on it is collected before the others respond."""
    grow(log, 10)
    faulty = FaultyBucket(bucket)
    moved: list[Call] = []

    def move(call: Call) -> None:
        if call.method == "list" and not moved:
            moved.append(call)
            grow(log, 20, start=120)
            collect(bucket, log, 25)

    faulty.after.append(move)
    reader = Log(faulty, world)
    assert reader.poll() == log.state
    assert (moved, reader.state.version) == ([faulty.calls[0]], 31)


def test_a_table_that_is_created_after_the_page_was_listed_is_found(world: World) -> None:
    empty = MemoryBucket(world.clock)
    racing = FaultyBucket(empty)

    def create_now(call: Call) -> None:
        if call.method == "list" and not exists(empty):
            create(empty, world, DEFINITION)

    racing.after.append(create_now)
    assert Log(racing, world).poll().version == 1


def test_a_poll_with_nothing_new_costs_two_gets_and_no_bytes(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    metered = Metered(bucket)
    reader = Log(metered, world)
    assert reader.state.version == 1
    metered.reset()
    assert reader.poll() is reader.state
    assert metered.counts == {"get": 2}
    assert metered.bytes["get"] == 0


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_a_poll_reads_on_until_nothing_is_new(
    bucket: MemoryBucket, world: World, log: Log, count: int
) -> None:
    reader = Log(bucket, world)
    assert reader.state.version == 1
    grow(log, count)
    assert reader.poll() == log.state
    assert reader.state.version == 1 + count


def test_a_poll_that_is_far_behind_goes_cold(
    bucket: MemoryBucket, world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockstore.index.poll.FAR_BEHIND", 10)
    monkeypatch.setattr("blockstore.index.read.FAR_BEHIND", 10)
    metered = Metered(bucket)
    reader = Log(metered, world)
    assert reader.state.version == 1
    grow(log, 80)
    metered.reset()
    assert reader.poll() == log.state
    assert metered.counts["list"] >= 1


def test_a_poll_below_the_boundary_drops_its_state(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    reader = Log(bucket, world)
    assert reader.state.version == 1
    grow(log, 5)
    collect(bucket, log, 4)
    assert reader.poll() == log.state


def test_an_entry_below_the_boundary_is_never_applied(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """A zombie: a file that a stalled writer left under a collected id. It is not even parsed."""
    reader = Log(bucket, world)
    assert reader.state.version == 1
    grow(log, 5)
    collect(bucket, log, 4)
    bucket.put(entry_key(2), b"a zombie's garbage")
    assert reader.poll() == log.state
    assert Log(bucket, world).state == log.state


def test_a_boundary_that_moves_between_entry_and_check_makes_the_poll_cold(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    faulty = FaultyBucket(bucket)
    reader = Log(faulty, world)
    assert reader.state.version == 1
    grow(log, 5)
    moved = []

    def move(call: Call) -> None:
        if call.key == entry_key(2) and not moved:
            moved.append(call)
            collect(bucket, log, 4)

    faulty.after.append(move)
    assert reader.poll() == log.state
    assert moved


def test_a_cold_read_starts_again_when_the_boundary_passes_its_checkpoint(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    grow(log, 70)
    faulty = FaultyBucket(bucket)
    moved = []

    def move(call: Call) -> None:
        if call.key == checkpoint_key(64) and call.method == "get" and not moved:
            moved.append(call)
            collect(bucket, log, 68)
            bucket.put(HINT, b'{"format":1,"checkpoint":68}')

    faulty.after.append(move)
    assert Log(faulty, world).state == log.state
    assert moved
    # Each attempt looks, and again side by side with the entries; the first counts for nothing, as
    # some of these are gone.
    assert [call.key for call in faulty.calls].count(BOUNDARY) == 4


def test_an_entry_that_is_not_as_listed_does_not_rest_on_a_boundary_that_was_read_before_it(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """Between the boundary that is read side by side with the entries and the last of these, that
    one is collected, and another writer's, which had stalled, arrives in its place."""
    grow(log, 70)
    late = sealed(encode_entry(entry_of(log.at(70), append(7))))
    faulty = FaultyBucket(bucket)
    moved: list[int] = []

    def move(call: Call) -> None:
        if call.key == checkpoint_key(64) and not moved:
            moved.append([earlier.key for earlier in faulty.calls].count(BOUNDARY))
            grow(log, 20, start=300)
            write_checkpoint(bucket, log.at(80))
            bucket.put(BOUNDARY, b"80")
            bucket.delete([entry_key(71)])
            bucket.put(entry_key(71), late)

    faulty.before.append(move)
    assert Log(faulty, world).state == log.state
    assert moved == [2]


def test_a_cold_read_starts_again_when_an_entry_is_gone(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    grow(log, 10)
    faulty = FaultyBucket(bucket)
    moved = []

    def move(call: Call) -> None:
        if call.key == "index/" and not moved:
            moved.append(call)
            collect(bucket, log, 8)

    faulty.after.append(move)
    assert Log(faulty, world).state == log.state


def test_a_hole_is_corrupt_and_not_stepped_over(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    grow(log, 5)
    bucket.delete([entry_key(3)])
    with pytest.raises(
        Corrupt, match=r"index entry 3 .*is missing above the boundary 0, and entry 4 exists"
    ):
        Log(bucket, world).poll()


@pytest.mark.parametrize(
    "hint", [b"garbage", b'{"checkpoint":50}', b'{"checkpoint":9223372036854775807}']
)
def test_a_wrong_hint_costs_a_listing_and_changes_nothing(
    bucket: MemoryBucket, world: World, log: Log, hint: bytes
) -> None:
    grow(log, 70)
    bucket.put(HINT, hint)
    metered = Metered(bucket)
    assert Log(metered, world).state == log.state
    assert metered.counts["list"] <= 5


def test_a_missing_hint_changes_nothing(bucket: MemoryBucket, world: World, log: Log) -> None:
    grow(log, 70)
    bucket.delete([HINT])
    assert Log(bucket, world).state == log.state


def test_a_missing_checkpoint_is_replaced_by_the_entries(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    grow(log, 70)
    bucket.delete([checkpoint_key(64)])
    assert Log(bucket, world).state == log.state


def test_a_checkpoint_lost_above_the_boundary_that_needs_it_is_corrupt(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    grow(log, 5)
    collect(bucket, log, 4)
    bucket.delete([checkpoint_key(4)])
    with pytest.raises(Corrupt, match=r"no checkpoint at or above the boundary 4"):
        Log(bucket, world).poll()


def test_a_damaged_entry_stops_the_reader(bucket: MemoryBucket, world: World, log: Log) -> None:
    """Fail closed: stepping back, or over it, would fork the history."""
    grow(log, 3)
    cut(bucket, entry_key(3))
    with pytest.raises(Corrupt, match="index entry 3"):
        Log(bucket, world).poll()


def cut(bucket: MemoryBucket, *keys: str) -> None:
    for key in keys:
        data = bucket.get(key).data
        bucket.put(key, data[: len(data) // 2])


@pytest.mark.parametrize("named_by", ["the hint", "a later entry", "nobody"])
def test_bytes_that_the_hint_or_a_later_entry_names_are_not_decoded_whole(
    bucket: MemoryBucket, world: World, log: Log, monkeypatch: pytest.MonkeyPatch, named_by: str
) -> None:
    """A table of 100,000 blocks opens by its small columns."""
    grow(log, 64 if named_by == "the hint" else 70)
    if named_by != "the hint":
        bucket.delete([HINT])
    if named_by == "nobody":
        bucket.delete(entry_key(entry) for entry in range(65, 72))
    decoded: list[int] = []
    read = _StoredBulk._read
    monkeypatch.setattr(
        _StoredBulk, "_read", lambda self, number: decoded.append(number) or read(self, number)
    )
    Log(bucket, world).poll()
    assert decoded == ([0] if named_by == "nobody" else [])


@pytest.mark.parametrize("damaged", [(128,), (64, 128)])
def test_a_damaged_checkpoint_is_passed_over_while_the_entries_below_it_are_there(
    bucket: MemoryBucket,
    world: World,
    log: Log,
    damaged: tuple[int, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    grow(log, 130)
    cut(bucket, *map(checkpoint_key, damaged))
    assert Log(bucket, world).poll() == log.state
    assert Log(bucket, world).at(129) == log.at(129)
    assert "blockstore repair" in caplog.text


def test_a_damaged_checkpoint_at_the_boundary_does_not_matter_while_a_newer_one_is_intact(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    grow(log, 130)
    collect(bucket, log, 100)
    cut(bucket, checkpoint_key(100))
    assert Log(bucket, world).poll() == log.state
    with pytest.raises(Corrupt, match=r"checkpoint 100 .*blockstore repair .*index rebuild"):
        Log(bucket, world).at(120)


def test_a_checkpoint_below_the_boundary_is_never_begun_with(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """A tag pins it, and even where entries after it are still there, they are void."""
    grow(log, 70)
    tag(log, world, "kept", 30)
    write_checkpoint(bucket, log.at(66))
    bucket.put(BOUNDARY, b"66")
    cut(bucket, checkpoint_key(66))
    with pytest.raises(Corrupt, match=r"checkpoint 66 .*index rebuild"):
        Log(bucket, world).poll()


def test_a_damaged_entry_stops_a_poll_and_a_writer_alike(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    bucket.put(entry_key(2), b"{}")
    with pytest.raises(Corrupt, match="index entry 2"):
        log.poll()
    with pytest.raises(Corrupt, match="index entry 2"):
        log.commit(append(50))
    assert log.state.version == 1


def test_an_entry_under_another_name_stops_the_reader(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    grow(log, 2)
    bucket.put(entry_key(4), bucket.get(entry_key(3)).data)
    with pytest.raises(Corrupt, match=r"index entry 4 .*has the id 3"):
        Log(bucket, world).poll()


def test_a_newer_entry_is_refused_by_name(bucket: MemoryBucket, world: World, log: Log) -> None:
    bucket.put(entry_key(2), b'{"format":2}')
    with pytest.raises(NewerFormat, match="index entry 2"):
        log.poll()


def test_entries_without_a_boundary_are_lost_for_everyone(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    bucket.delete([BOUNDARY])
    for read in (Log(bucket, world).poll, log.poll, lambda: log.commit(append(50))):
        with pytest.raises(BoundaryLost):
            read()


@pytest.mark.parametrize("data", [b"", b"x", b"-1"])
def test_a_garbled_boundary_stops_everyone(
    bucket: MemoryBucket, world: World, log: Log, data: bytes
) -> None:
    bucket.put(BOUNDARY, data)
    for read in (Log(bucket, world).poll, log.poll, lambda: log.commit(append(50))):
        with pytest.raises(BoundaryLost):
            read()


def test_a_boundary_that_fell_stops_whoever_saw_it(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    grow(log, 5)
    collect(bucket, log, 4)
    log.poll()
    bucket.put(BOUNDARY, b"3")
    with pytest.raises(BoundaryLost, match="fell from 4 to 3"):
        log.poll()


def test_where_there_is_no_index_nothing_is_found(bucket: MemoryBucket, world: World) -> None:
    with pytest.raises(NotFound, match="no table with an index"):
        Log(bucket, world).poll()
    bucket.put(BOUNDARY, b"0")
    with pytest.raises(NotFound, match="never finished"):
        Log(bucket, world).poll()
    bucket.put(BOUNDARY, b"7")
    with pytest.raises(Corrupt, match="boundary is 7"):
        Log(bucket, world).poll()


def test_a_long_list_of_sources_is_loaded_from_its_block_and_checked(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    sources = tuple(ulid(number) for number in range(2_000))
    made = block(5_000, sources=sources)
    path = object_key(made.ulid, sources_path())
    bucket.put(path, encode_sources(sources))
    log.commit(
        Planned(
            operation=Operation.REWRITE, commit=ulid(1), plan=Draft(add=(AddedBlock(meta=made),))
        )
    )
    assert len(bucket.get(entry_key(2)).data) < 2_000
    found = Log(bucket, world).state.blocks.get(made.ulid)
    assert found is not None
    assert found.meta.sources == sources
    bucket.put(path, encode_sources(sources[:-1]))
    with pytest.raises(Corrupt, match=r"index entry 2: block .*1999 sources"):
        Log(bucket, world).poll()
    bucket.delete([path])
    with pytest.raises(Corrupt, match=r"index entry 2: block .*missing"):
        Log(bucket, world).poll()


def test_readers_hold_nothing_that_writes(bucket: MemoryBucket, world: World, log: Log) -> None:
    reader = Log(ReadOnly(bucket), world)
    assert reader.state == log.state
    with pytest.raises(Invalid, match="reading only"):
        reader.commit(Append(commit=ulid(1), blocks=(block(50),)))


def test_a_table_that_is_created_between_two_looks_is_no_lost_boundary(world: World) -> None:
    empty = MemoryBucket(world.clock)
    racing = FaultyBucket(empty)

    def create_now(call: Call) -> None:
        if call.method == "list" and not exists(empty):
            create(empty, world, DEFINITION)

    racing.before.append(create_now)
    assert Log(racing, world).poll().version == 1


def test_a_zombie_at_the_boundary_itself_is_not_applied_though_what_follows_it_is_history(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    grow(log, 3)
    reader = Log(bucket, world)
    assert reader.poll().version == 4
    grow(log, 3, start=110)
    collect(bucket, log, 5)
    bucket.put(entry_key(5), b"a zombie's garbage")
    assert reader.poll() == log.state


def test_a_poll_that_a_commit_of_the_same_handle_overtakes_does_not_take_the_handle_back(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    faulty = FaultyBucket(bucket)
    handle = Log(faulty, world)
    assert handle.poll().version == 1

    def overtake(call: Call) -> None:
        if call.key == BOUNDARY:
            faulty.before.remove(overtake)
            handle.commit(append(100))

    faulty.before.append(overtake)
    assert handle.poll().version == 2
    assert handle.state.version == 2
