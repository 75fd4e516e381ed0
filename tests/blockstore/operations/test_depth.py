"""How many requests of an operation must follow one another."""

from __future__ import annotations

import pyarrow as pa

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.format.definition import Definition
from blockstore.ids import Ids
from blockstore.index import log as index_log
from blockstore.names import BOUNDARY, entry_key
from blockstore.table import Table
from blockstore.world import Threads, World
from tests.support.in_turn import InTurn

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = pa.table({"n": [1]}, schema=SCHEMA)


def test_an_append_to_a_known_table_is_six_requests_in_turn() -> None:
    """The looks at the entry below cost none: one is made while the block is completed, the other beside the boundary."""
    clock = ManualClock(1_700_000_000_000)
    world = World(clock=clock, ids=Ids.seeded(clock, 1), pool=Threads(4))
    bucket = MemoryBucket(clock)
    index_log.create(bucket, world, Definition.create(SCHEMA))
    slow = InTurn(bucket, clock)
    table = Table.open_bucket(slow, world)
    table.append(ROWS)
    slow.chain.clear()
    assert table.append(ROWS).version == 3
    assert len(slow.chain) == 6, "\n".join(", ".join(wave) for wave in slow.chain)
    assert sorted(slow.chain[-1]) == sorted([f"GET {BOUNDARY}", f"GET {entry_key(2)}"])
    (before,) = [wave for wave in slow.chain[:-2] if f"GET {entry_key(2)}" in wave]
    assert len(before) == 2
