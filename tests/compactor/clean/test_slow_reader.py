"""A reader that pauses in the middle of a listing, while what it lists is merged and removed: all
rows, or an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.by_hand import clean_once
from blockstore.errors import Unavailable
from blockstore.index import log as index_log
from blockstore.table import Table
from blockstore.world import World
from tests.compactor.plain import DEFINITION, DELETE_S, SCHEMA, SYNC_S, Plain, plain
from tests.support.faulty import Call, FaultyBucket
from tests.support.tally import tally


def merged_and_removed(made: Plain) -> None:
    """Days go by: the blocks are merged, and go."""
    made.compact(seed=7)
    made.age(2 * SYNC_S)
    for _ in range(2):
        clean_once(made.open(seed=8))
        made.age(DELETE_S)
    assert len(made.metas()) == 1, "the merge alone is left"


def once_after(number: int, act: Callable[[], object]) -> Callable[[Call], None]:
    def after(call: Call) -> None:
        if call.number == number:
            act()

    return after


def test_it_reads_every_row_wherever_it_pauses(tmp_path: Path) -> None:
    ready = plain(tmp_path, "a", "b", "c")
    counted = FaultyBucket(ready.copy().bucket)
    ready.open(counted).snapshot()
    assert len(counted.calls) > 4
    for call in counted.calls:
        made = ready.copy()
        tally("crash points")
        faulty = FaultyBucket(made.bucket)
        faulty.after.append(once_after(call.number, lambda made=made: merged_and_removed(made)))  # type: ignore[misc]
        snapshot = made.open(faulty).snapshot(strict=True)
        rows = sum(block.meta.rows for block in snapshot.blocks)
        assert rows == made.expected.total(), call


def test_one_that_is_always_too_slow_says_so(tmp_path: Path) -> None:
    made = plain(tmp_path, "a", "b", "c")
    faulty = FaultyBucket(made.bucket)
    faulty.after.append(lambda call: made.age(DELETE_S) if call.method == "list" else None)
    with pytest.raises(Unavailable, match="longer than half of the table's delete_delay"):
        made.open(faulty).snapshot()


ASKS: Mapping[str, Callable[[Table], object]] = {
    "a snapshot": lambda table: table.snapshot(),
    "a transaction": lambda table: table.overwrite(
        pa.table({"writer": ["b"], "row": [1]}, schema=SCHEMA)
    ),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_so_does_one_that_joins_a_listing_with_an_index(ask: Callable[[Table], object]) -> None:
    world = World.manual(seed=3)
    faulty = FaultyBucket(MemoryBucket(world.clock))
    index_log.create(faulty, world, DEFINITION)
    table = Table.open_bucket(faulty, world, discovery="list")
    ask(table)

    def too_slow(call: Call) -> None:
        if call.method == "list" and not call.key:
            world.clock.sleep(DELETE_S)

    faulty.after.append(too_slow)
    with pytest.raises(Unavailable, match="listed 3 times"):
        ask(table)
