"""What cleaning does with a dropped table: nothing is lost before its time, nothing stays after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import blockstore as bs
from blockstore.bucket import Bucket
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.compactor.clean.report import CleaningReport
from blockstore.compactor.clean.retention import retain
from blockstore.compactor.plan.observe import observe
from blockstore.errors import Fenced, Indeterminate, Unavailable
from blockstore.index import log as index_log
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.index.gc import collect
from blockstore.index.log import Log
from blockstore.operations.drop import drop_table, undrop_table
from blockstore.table import Table
from tests.compactor.lake import PER_S, Lake, rows
from tests.compactor.scene import small_chunks
from tests.support.faulty import Call, FaultyBucket, Killed


@pytest.fixture(autouse=True)
def blocks_of_two_chunks() -> Iterator[None]:
    with small_chunks():
        yield


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table with a merge, a tag, and a block that no entry names."""
    lake = Lake(tmp_path)
    for writer in "abc":
        lake.append(writer)
    lake.open().tag("kept")
    lake.compact()
    lake.append("d")
    lake.append("e", publish=False)
    drop_table(Log(lake.bucket, lake.world), lake.world)
    return lake


def opened(lake: Lake, bucket: Bucket | None = None) -> Table:
    return Table.open_bucket(bucket or lake.bucket, lake.world, dropped=True)


def clean(lake: Lake, bucket: Bucket | None = None) -> CleaningReport:
    table = opened(lake, bucket)
    held = claim(table.log, table.world, COMPACTOR)
    collect(table.log, table.world, held=held)
    return Cleaner(table, held, objects_per_s=PER_S).run()


def passes(lake: Lake, days: float) -> None:
    for _ in range(int(days * 2)):
        lake.sleep(0.5)
        clean(lake)


def test_until_delete_delay_has_passed_the_table_comes_back_whole(lake: Lake) -> None:
    passes(lake, 1.9)
    undrop_table(Log(lake.bucket, lake.world), lake.world)
    passes(lake, 0.5)
    assert lake.read("index") == lake.read("list") == lake.expected
    assert sum(lake.read("index", tag="kept").values()) == 12


def test_after_it_the_bytes_go_and_the_table_cannot_be_brought_back(lake: Lake) -> None:
    passes(lake, 2.1)
    log = Log(lake.bucket, lake.world)
    assert (len(log.state.blocks), log.state.tags) == (0, {})
    version = log.state.version
    with pytest.raises(bs.NotFound, match="cannot be brought back: its blocks left it"):
        undrop_table(log, lake.world)
    with pytest.raises(bs.TableDropped, match="cannot be brought back any more"):
        lake.open()
    assert Log(lake.bucket, lake.world).poll().version == version
    passes(lake, 6)
    assert lake.directories() == {}


def test_a_block_that_comes_later_goes_too(lake: Lake) -> None:
    undrop_table(Log(lake.bucket, lake.world), lake.world)
    writer = lake.open()
    drop_table(Log(lake.bucket, lake.world), lake.world)
    passes(lake, 3)
    writer.append(rows("f"), publish=False)
    passes(lake, 8)
    assert lake.directories() == {}


def test_a_new_table_frees_the_bytes_of_the_old_one_and_keeps_its_own(lake: Lake) -> None:
    old = set(lake.directories())
    index_log.create(lake.bucket, lake.world, lake.definition)
    lake.expected.clear()
    lake.append("n")
    passes(lake, 8)
    lake.check()
    left = set(lake.directories())
    assert len(left - old) == 1
    # A person decides about what no entry named: it may be the only copy of its rows.
    assert len(left & old) == 1


def test_a_dropped_table_is_not_merged_and_nothing_of_it_expires(lake: Lake) -> None:
    table = opened(lake)
    assert not list(observe(table).candidates)
    held = claim(table.log, table.world, COMPACTOR)
    lake.sleep(400)
    assert retain(table, held).blocks == ()
    assert len(table.log.poll().blocks) == 2


@pytest.mark.parametrize("fault", ["kill_before", "kill_after", "lose_answer"])
def test_killed_anywhere_the_next_pass_ends_what_was_begun(lake: Lake, fault: str) -> None:
    lake.sleep(2.1)
    calm = FaultyBucket(lake.copy().bucket)
    clean(lake, calm)
    for call in calm.writes:
        copy = lake.copy()
        number = [call.number] if fault == "lose_answer" else call.number
        with suppress(Killed, Unavailable, Indeterminate, Fenced):
            clean(copy, FaultyBucket(copy.bucket, **{fault: number}))  # type: ignore[arg-type]
        clean(copy)
        state = Log(copy.bucket, copy.world).state
        assert state.dropped is not None
        assert state.dropped.cleared is not None, call
        assert len(state.blocks) == 0


def test_an_undrop_and_the_clearing_exclude_each_other(lake: Lake) -> None:
    """The undrop comes just before the entry that would have cleared the table."""
    lake.sleep(2.1)
    faulty = FaultyBucket(lake.bucket)

    def interfere(call: Call) -> None:
        written = call.method == "put_if_absent" and call.key.startswith("index/0")
        state = Log(lake.bucket, lake.world).state
        if written and COMPACTOR in state.epochs and state.dropped is not None:
            undrop_table(Log(lake.bucket, lake.world), lake.world)

    faulty.before.append(interfere)
    clean(lake, faulty)
    state = lake.open().log.state
    assert state.dropped is None
    assert state.tags == {"kept": 4}
    assert len(state.blocks) == 2
