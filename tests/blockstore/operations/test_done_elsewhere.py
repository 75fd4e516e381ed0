"""A job that was done before the table was put back from a copy is not called done again: its rows
are gone."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import HistoryReplaced
from blockstore.format import Definition
from blockstore.index import log as index_log
from blockstore.table import Table
from blockstore.world import World
from tests.support.put_back import copy_of, put_back

SCHEMA = pa.schema([("row", pa.int64())])
JOB = bs.Job(app="nightly", batch=7)
ULID = "01HF7YAT00F3JQ64ERMF1CWVT4"


def rows(*found: int) -> pa.Table:
    return pa.table({"row": list(found)}, schema=SCHEMA)


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda table: table.append(rows(1), job=JOB), id="append of a job"),
        pytest.param(lambda table: table.overwrite(rows(1), job=JOB), id="overwrite of a job"),
        pytest.param(lambda table: table.append(rows(1), resume=ULID), id="append that is resumed"),
    ],
)
def test_a_write_that_was_done_before_the_disaster_is_told_that_its_history_was_replaced(
    write: Callable[[Table], object],
) -> None:
    world = World.manual(now_ms=1_700_000_100_000)
    bucket = MemoryBucket(world.clock)
    index_log.create(bucket, world, Definition.create(SCHEMA))
    copy = copy_of(bucket)
    table = Table.open_bucket(bucket, world)
    write(table)
    put_back(bucket, copy)
    with pytest.raises(HistoryReplaced):
        write(table)
    fresh = Table.open_bucket(bucket, world)
    write(fresh)
    assert fresh.snapshot().count() == 1
