"""An index whose newest entry is collected: a replica that has only begun, or one whose boundary
was rebuilt. It takes commits."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import Corrupt
from blockstore.index.checkpoint_write import ensure_checkpoint
from blockstore.index.log import Log, create
from blockstore.names import entry_key
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import DEFINITION, append, ulid

MANY = 100


@pytest.mark.parametrize("warm", [False, True])
def test_an_index_without_its_newest_entry_takes_commits(
    bucket: MemoryBucket, world: World, warm: bool
) -> None:
    log = create(bucket, world, DEFINITION)
    log.commit(append(1))
    faulty = FaultyBucket(bucket)
    writer = Log(faulty, world)
    if warm:
        writer.poll()
    ensure_checkpoint(bucket, log.poll())
    log.boundary.advance(2)
    bucket.delete([entry_key(1), entry_key(2)])

    def bounded(call: Call) -> None:
        assert call.number < MANY, "it goes round and round"

    faulty.before.append(bounded)
    writer.commit(append(2))
    assert writer.commit(append(3)).version == 4
    assert Log(bucket, world).state.blocks.ulids() == [ulid(1), ulid(2), ulid(3)]


def test_follow_of_an_index_without_its_newest_entry_stays_with_the_handle(
    bucket: MemoryBucket, world: World
) -> None:
    """Whoever copies it would else begin again at every look, and never come to an end."""
    log = create(bucket, world, DEFINITION)
    log.commit(append(1))
    ensure_checkpoint(bucket, log.poll())
    log.boundary.advance(2)
    bucket.delete([entry_key(1), entry_key(2)])
    reader = Log(bucket, world)
    reader.poll()
    assert reader.follow() is reader
    log.commit(append(2))
    assert reader.follow().state.version == 3


def test_an_entry_that_is_missing_right_above_the_boundary_is_named(
    bucket: MemoryBucket, world: World
) -> None:
    """It is no matter of trying again, and there is a way on."""
    log = create(bucket, world, DEFINITION)
    for number in (1, 2, 3):
        log.commit(append(number))
    ensure_checkpoint(bucket, log.at(2))
    log.boundary.advance(2)
    bucket.delete([entry_key(1), entry_key(2), entry_key(3)])
    with pytest.raises(
        Corrupt, match=r"index entry 3 .* is missing above the boundary 2.*--stale-entry 4"
    ):
        Log(bucket, world).poll()
