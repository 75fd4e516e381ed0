"""A compactor whose machine has a wrong clock, on a folder of a server with a right one."""

from __future__ import annotations

from pathlib import Path

import pytest

from blockstore.bucket.local import LocalBucket
from blockstore.clock import SystemClock
from blockstore.compactor.by_hand import clean_once
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.ids import Ids, ulid_time_ms
from blockstore.index import log as index_log
from blockstore.table import Table
from blockstore.world import Serial, World
from tests.compactor.lake import DAY_S, SCHEMA, rows
from tests.support.faulty import Call, FaultyBucket


class Wrong(SystemClock):
    """The machine's clock is so many days ahead."""

    def __init__(self, days: float) -> None:
        self._ms = round(days * DAY_S * 1000)

    def now_ms(self) -> int:
        return super().now_ms() + self._ms


@pytest.mark.parametrize("days", [3, 400])
def test_a_compactor_whose_clock_is_ahead_condemns_no_upload_that_is_going_on(
    tmp_path: Path, days: float
) -> None:
    world = World.real(workers=1)
    bucket = LocalBucket(tmp_path / "t", world.clock, durable=False)
    index_log.create(bucket, world, Definition.create(SCHEMA, sort_by=["row"]))
    clock = Wrong(days)
    ahead = World(clock=clock, ids=Ids(clock), pool=Serial())
    faulty = FaultyBucket(bucket)

    def clean(call: Call) -> None:
        if call.method == "put_if_absent" and call.key.startswith("index/"):
            faulty.before.clear()
            there = LocalBucket(tmp_path / "t", clock, durable=False)
            clean_once(Table.open_bucket(there, ahead))

    faulty.before.append(clean)
    appended = Table.open_bucket(faulty, world).append(rows("a"), job=Job("load", 1))
    assert appended.published
    assert [one.ulid for one in Table.open_bucket(bucket, world).log.poll().blocks] == [
        appended.ulid
    ]
    horizon = Table.open_bucket(bucket, world).log.poll().horizon
    assert horizon is None or ulid_time_ms(horizon) < bucket.now_ms()
    assert [
        key for key in (info.key for info in bucket.list()) if key.endswith("deletion-mark.json")
    ] == []
