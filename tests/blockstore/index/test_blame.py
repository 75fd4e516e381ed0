"""Which entry changed a block, for the message of a conflict."""

from __future__ import annotations

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.errors import Unavailable
from blockstore.index.blame import who_changed
from blockstore.index.change import Draft, Expire
from blockstore.index.entry import Operation
from blockstore.index.log import Log
from blockstore.world import World
from tests.blockstore.index.test_read import collect
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import Planned, append, ulid


def gone(log: Log, number: int, commit: int) -> None:
    log.commit(
        Expire(
            commit=ulid(commit),
            read={ulid(number): log.state.blocks.get(ulid(number)).excepted},
            reason="x",
        )
    )  # type: ignore[union-attr]


def test_the_newest_entry_that_touched_the_block_is_named(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    log.commit(append(10, 11))
    hide = Draft(excepts={ulid(10): (ulid(10),)})
    Log(bucket, world, program="spark").commit(
        Planned(operation=Operation.REVERT, commit=ulid(900), plan=hide)
    )
    log.poll()
    named = who_changed(log.reader, log.state, ulid(10), None)
    assert named.startswith("version 3 (revert by ")
    assert ", spark, " in named
    gone(log, 10, 901)
    assert who_changed(log.reader, log.state, ulid(10), None).startswith("version 4 (expire by ")
    assert who_changed(log.reader, log.state, ulid(11), None) == "another operation"


def test_it_looks_back_as_far_as_the_operation_has_read_and_no_further_than_a_few_pages(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    log.commit(append(10))
    gone(log, 10, 900)
    for number in range(100, 140):
        log.commit(append(number))
    assert who_changed(log.reader, log.state, ulid(10), 2).startswith("version 3 ")
    assert who_changed(log.reader, log.state, ulid(10), 3) == "another operation"
    for number in range(140, 400):
        log.commit(append(number))
    metered = Metered(bucket)
    reader = Log(metered, world)
    reader.poll()
    metered.reset()
    assert who_changed(reader.reader, reader.state, ulid(10), None) == "another operation"
    assert metered.counts["get"] <= 256


def test_whatever_goes_wrong_it_is_another_operation(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    log.commit(append(10))
    gone(log, 10, 900)
    faulty = FaultyBucket(bucket)
    reader = Log(faulty, world)
    state = reader.poll()

    def fail(call: Call) -> None:
        raise Unavailable("no answer")

    faulty.before.append(fail)
    assert who_changed(reader.reader, state, ulid(10), None) == "another operation"
    faulty.before.clear()
    log.commit(append(11))
    collect(bucket, log, 3)
    assert who_changed(reader.reader, state, ulid(10), None) == "another operation"
