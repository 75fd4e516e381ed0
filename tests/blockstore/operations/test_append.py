"""What an append returns where publishing fails."""

from __future__ import annotations

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import AccessDenied, BlockCondemned, BoundaryLost, Corrupt, Invalid
from blockstore.format.definition import Definition
from blockstore.ids import ulid_at
from blockstore.index import log as index_log
from blockstore.index.change import Append, Draft
from blockstore.index.entry import Operation
from blockstore.names import BOUNDARY, entry_key
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import Planned

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = pa.table({"n": [1]}, schema=SCHEMA)
JOB = bs.Job(app="load", batch=1)


@pytest.fixture
def bucket(world: World) -> MemoryBucket:
    bucket = MemoryBucket(world.clock)
    index_log.create(bucket, world, Definition.create(SCHEMA))
    return bucket


def test_a_durable_block_that_may_not_be_published_is_no_refusal(
    bucket: MemoryBucket, world: World
) -> None:
    """Its rows will be discovered: a caller that was refused would write them twice."""
    faulty = FaultyBucket(bucket)

    def deny(call: Call) -> None:
        if call.key == entry_key(2) and call.writes:
            raise AccessDenied("no permission to write the index")

    faulty.before.append(deny)
    table = Table.open_bucket(faulty, world)
    answer = table.append(ROWS)
    assert (answer.published, answer.version, answer.rows) == (False, None, 1)
    with pytest.raises(AccessDenied):
        table.append(ROWS, job=JOB)
    faulty.before.clear()
    assert table.append(ROWS, resume=answer.ulid).published
    assert table.snapshot().scan().to_table().num_rows == 1


def test_a_condemned_block_is_not_uploaded_again_without_end(
    bucket: MemoryBucket, world: World
) -> None:
    table = Table.open_bucket(bucket, world)
    horizon = ulid_at(world.clock.now_ms() + 5 * 86_400_000)
    table.log.commit(
        Planned(operation=Operation.HORIZON, commit=world.ids.ulid(), plan=Draft(horizon=horizon))
    )
    with pytest.raises(BlockCondemned, match="clock"):
        table.append(ROWS, job=JOB)
    assert table.snapshot().scan().to_table().num_rows == 0
    answer = table.append(ROWS)
    assert (answer.published, answer.version) == (False, None)


def test_a_write_that_failed_is_over_although_its_error_was_caught(
    bucket: MemoryBucket, world: World
) -> None:
    table = Table.open_bucket(bucket, world)
    writer = table.writer()
    writer.write(ROWS)
    with pytest.raises(Invalid, match="column"):
        writer.write(pa.table({"m": ["x"]}))
    with pytest.raises(Invalid, match="new writer"):
        writer.finish()
    assert table.snapshot().scan().to_table().num_rows == 0


@pytest.mark.parametrize("harm", ["boundary gone", "boundary garbage", "entry garbage"])
def test_a_damaged_index_is_told_with_the_durable_block_and_how_to_go_on(
    bucket: MemoryBucket, world: World, harm: str
) -> None:
    table = Table.open_bucket(bucket, world)
    boundary = bucket.get(BOUNDARY).data
    if harm == "boundary gone":
        bucket.delete([BOUNDARY])
    elif harm == "boundary garbage":
        bucket.put(BOUNDARY, b"many")
    else:
        bucket.put(entry_key(2), b"{")
    with pytest.raises(
        Corrupt, match="was uploaded: do not write its rows under another name"
    ) as told:
        table.append(ROWS)
    assert isinstance(told.value, BoundaryLost) == harm.startswith("boundary")
    (ulid,) = {
        found.key.partition("/")[0] for found in bucket.list() if found.key.endswith("meta.json")
    }
    assert f"append(data, resume='{ulid}')" in str(told.value)
    bucket.put(BOUNDARY, boundary)
    if harm == "entry garbage":
        bucket.delete([entry_key(2)])
    mended = Table.open_bucket(bucket, world)
    assert mended.append(ROWS, resume=ulid).published
    assert mended.snapshot().count() == 1


def test_a_damaged_index_tells_a_job_to_run_again(bucket: MemoryBucket, world: World) -> None:
    table = Table.open_bucket(bucket, world)
    bucket.put(entry_key(2), b"{")
    with pytest.raises(Corrupt, match="run the same job again"):
        table.append(ROWS, job=JOB)
    bucket.delete([entry_key(2)])
    assert Table.open_bucket(bucket, world).append(ROWS, job=JOB).published


def test_a_job_whose_batch_was_taken_while_it_wrote_has_written_nothing(
    bucket: MemoryBucket, world: World
) -> None:
    """A gateway gives a job up by an entry without blocks. A late attempt must not be answered as a
    write that discovery will show: its block stays unseen."""
    faulty = FaultyBucket(bucket)
    other = Table.open_bucket(bucket, world)

    def taken(call: Call) -> None:
        if call.key == entry_key(2) and call.writes:
            other.log.commit(Append(commit=world.ids.ulid(), blocks=(), job=JOB))

    faulty.before.append(taken)
    answer = Table.open_bucket(faulty, world).append(ROWS, job=JOB)
    assert (answer.already, answer.ulid, answer.rows) == (True, None, 0)
    assert (other.poll(), other.snapshot().count()) == (2, 0)


@pytest.mark.parametrize("publish", [True, False])
def test_a_write_that_was_seen_and_replaced_while_its_writer_stalled_is_done(
    bucket: MemoryBucket, world: World, publish: bool
) -> None:
    """Discovered by its age, overwritten, removed: a caller that was refused would bring the rows
    back."""
    faulty = FaultyBucket(bucket)

    def overwritten_meanwhile(call: Call) -> None:
        if call.writes and call.key.endswith("meta.json"):
            ulid = call.key.partition("/")[0]
            other = Table.open_bucket(bucket, world)
            other.log.commit(
                Planned(
                    operation=Operation.OVERWRITE,
                    commit=world.ids.ulid(),
                    plan=Draft(account=(ulid,)),
                )
            )
            bucket.delete([found.key for found in bucket.list(f"{ulid}/")])

    table = Table.open_bucket(faulty, world)
    faulty.after.append(overwritten_meanwhile)
    answer = table.append(ROWS, publish=publish)
    assert answer.already or not publish
    assert table.snapshot().scan().to_table().num_rows == 0
