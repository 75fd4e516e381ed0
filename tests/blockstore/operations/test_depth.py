"""How many requests of an operation must follow one another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.format.definition import Definition
from blockstore.ids import Ids
from blockstore.index import log as index_log
from blockstore.names import BOUNDARY, entry_key
from blockstore.table import Table
from blockstore.world import Threads, World
from tests.compactor.scene import Hide
from tests.support.in_turn import InTurn

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = pa.table({"n": [1]}, schema=SCHEMA)


def known() -> tuple[InTurn, Table]:
    """A table whose handle has written version 2, and its store."""
    clock = ManualClock(1_700_000_000_000)
    world = World(clock=clock, ids=Ids.seeded(clock, 1), pool=Threads(4))
    bucket = MemoryBucket(clock)
    index_log.create(bucket, world, Definition.create(SCHEMA))
    slow = InTurn(bucket, clock)
    table = Table.open_bucket(slow, world)
    table.append(ROWS)
    slow.chain.clear()
    return slow, table


def test_an_append_to_a_known_table_is_six_requests_in_turn() -> None:
    """The looks at the entry below cost none: one is made while the block is completed, the other
    next to the boundary."""
    slow, table = known()
    assert table.append(ROWS).version == 3
    assert len(slow.chain) == 6, "\n".join(", ".join(wave) for wave in slow.chain)
    assert sorted(slow.chain[-1]) == sorted([f"GET {BOUNDARY}", f"GET {entry_key(2)}"])
    (before,) = [wave for wave in slow.chain[:-2] if f"GET {entry_key(2)}" in wave]
    assert len(before) == 2


def look_ahead(table: Table) -> None:
    look = table.log.look_ahead()
    assert look is not None
    look()


@pytest.mark.parametrize(
    ("began_s", "looks"),
    [(0.1, 0), (6, 1), (None, 1)],
    ids=["while it was under way", "long before", "after"],
)
def test_what_this_handle_has_created_needs_no_look_by_a_commit_that_had_begun_by_then(
    began_s: float | None, looks: int
) -> None:
    """As the threads of one process do that share a handle: while one's entry is created the next
    ones upload."""
    slow, table = known()
    clock = table.world.clock
    with ThreadPoolExecutor(1) as another:
        if began_s is not None:
            another.submit(look_ahead, table).result()
            clock.sleep(began_s)
        table.append(ROWS)
        slow.chain.clear()
        hide = Hide(commit=table.world.ids.ulid(), source=next(iter(table.log.state.blocks)).ulid)
        assert another.submit(lambda: table.log.commit(hide)).result().version == 4
    look, put = [f"GET {entry_key(3)}"], [f"PUT {entry_key(4)}"]
    assert [sorted(wave) for wave in slow.chain] == [
        *[look] * looks,
        put,
        sorted([f"GET {BOUNDARY}", *look]),
    ]
