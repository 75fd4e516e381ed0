"""Care by hand: it claims the role, and a forced removal checks first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from blockstore.compactor.by_hand import clean_once, remove_now, retain_once
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.errors import Conflict, Fenced, NotFound
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.names import DELETION_MARK, META
from tests.compactor.lake import PER_S, Lake, quietly
from tests.compactor.scene import small_chunks
from tests.support.faulty import FaultyBucket
from tests.support.tally import tally


@pytest.fixture(autouse=True)
def blocks_of_two_chunks() -> Iterator[None]:
    with small_chunks():
        yield


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    for writer in "ab":
        lake.append(writer)
    return lake


def test_cleaning_by_hand_collects_and_removes_without_a_compactor(lake: Lake) -> None:
    lake.compact()
    for _ in range(4):
        clean_once(lake.open())
        lake.sleep(2.1)
    assert lake.open().log.boundary.read() > 0
    assert lake.directories().keys() == set(lake.live())
    lake.check()


def test_a_compactor_that_runs_is_fenced_by_care_by_hand(lake: Lake) -> None:
    table = lake.open()
    running = Cleaner(table, claim(table.log, table.world, COMPACTOR), objects_per_s=PER_S)
    clean_once(lake.open())
    with pytest.raises(Fenced):
        running.run()
    assert retain_once(lake.open()).blocks == ()


def test_a_block_that_blocks_everybody_goes_at_once(lake: Lake) -> None:
    wreck = lake.garbage()
    removed = remove_now(lake.open(), wreck, "its meta.json is garbage")
    assert removed.blocks == [wreck]
    assert wreck not in lake.directories()
    lake.check()


def test_without_an_index_its_rows_go_with_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path, indexed=False)
    block = lake.append("a")
    lake.append("b")
    lake.sleep(0.1)
    remove_now(lake.open(), block)
    lake.expects("a", 0)
    lake.check()


def test_what_a_version_or_a_tag_names_is_refused_unless_it_is_forced(lake: Lake) -> None:
    lake.open().tag("kept")
    [first, second] = lake.live()
    lake.compact()
    before = lake.directories()
    for block in (first, lake.live()[0]):
        with pytest.raises(Conflict, match=r"names it.*--force"):
            remove_now(lake.open(), block)
    assert lake.directories() == before
    remove_now(lake.open(), second, force=True)
    assert second not in lake.directories()
    assert lake.read("index") == lake.expected


def test_an_unknown_block_is_refused(lake: Lake) -> None:
    with pytest.raises(NotFound):
        remove_now(lake.open(), lake.world.ids.ulid())


def test_a_forced_removal_that_died_is_finished_by_cleaning(tmp_path: Path) -> None:
    origin = Lake(tmp_path, indexed=False)
    block = origin.append("a")
    origin.append("b")
    origin.sleep(0.1)
    origin.expects("a", 0)
    plain = origin.copy()
    counting = FaultyBucket(plain.bucket)
    remove_now(plain.open(counting), block)
    for number in range(1, len(counting.calls) + 1):
        for fault in ("kill_before", "kill_after"):
            tally("crash points")
            lake = origin.copy()
            faulty = FaultyBucket(lake.bucket, **{fault: number})  # type: ignore[arg-type]
            quietly(lambda lake=lake, faulty=faulty: remove_now(lake.open(faulty), block))  # type: ignore[misc]
            left = lake.directories().get(block)
            if left is None or DELETION_MARK in left:
                assert left is None or META in left or DELETION_MARK in left, (fault, number)
                lake.settle()
                lake.check((fault, number))
                assert block not in lake.directories()
