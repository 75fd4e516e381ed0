"""Text that is not UTF-8 is refused by every way into a table, with its column and row, and nothing
of it is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.care.ship.build import build_block
from blockstore.format.definition import Definition
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.operations.lake import SCHEMA, Lake
from tests.support.raw_text import raw_text

A, B = ("a", 1, 0.1), ("b", 2, 0.2)
WRONG = pa.table(
    [raw_text([b"a", b"caf\xe9"]), pa.array([1, 2]), pa.array([0.1, 0.2])], schema=SCHEMA
)
SAYS = r"column 'key' holds b'caf\\xe9' in row 1 .*UTF-8"


def write(table: Table) -> None:
    with table.writer() as writer:
        writer.write(WRONG)


WAYS: dict[str, Callable[[Table], object]] = {
    "append": lambda table: table.append(WRONG),
    "writer": write,
    "batches": lambda table: table.append(iter(WRONG.to_batches(max_chunksize=1))),
    "overwrite": lambda table: table.overwrite(WRONG),
    "overwrite of a condition": lambda table: table.overwrite(WRONG, where="number < 9"),
    "condition on the text": lambda table: table.overwrite(WRONG, where="key < 'b'"),
    "dry run": lambda table: table.overwrite(WRONG, dry_run=True),
}


@pytest.mark.parametrize("act", WAYS.values(), ids=WAYS.keys())
def test_no_operation_takes_it(act: Callable[[Table], object]) -> None:
    lake = Lake()
    lake.append(B)
    version = lake.open().poll()
    with pytest.raises(bs.Invalid, match=SAYS):
        act(lake.open())
    assert (lake.plain(), lake.open().poll()) == (Counter([B]), version)


def test_no_device_builds_a_block_of_it() -> None:
    world = World.manual()
    folder = MemoryBucket(world.clock)
    with pytest.raises(bs.Invalid, match=SAYS):
        build_block(folder, world, Definition.create(SCHEMA), WRONG)
    assert not list(folder.list())
