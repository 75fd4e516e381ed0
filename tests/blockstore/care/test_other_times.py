"""Blocks whose times are those of another column, or of their creation: they say nothing of the
table's time column."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.care.finding import Check, Severity
from blockstore.care.repair import RepairOptions, carry_out, plan_repair
from blockstore.care.repair.target import Target
from blockstore.care.ship import Shipper
from blockstore.care.ship.build import build_block
from blockstore.care.verify import verify
from blockstore.compactor.clean.retention import plan_retention
from blockstore.format.definition import Definition
from blockstore.format.properties import Properties
from blockstore.index import log as index_log
from blockstore.index import rules
from blockstore.operations.append import publish
from blockstore.operations.unindexed import declare
from blockstore.table import Table
from blockstore.world import World

TIMED = pa.schema(
    [("at", pa.timestamp("ms", "UTC")), ("born", pa.timestamp("ms", "UTC")), ("n", pa.int64())]
)
JANUARY = (
    "at >= TIMESTAMP '2013-01-01 00:00:00+00:00' AND at < TIMESTAMP '2013-02-01 00:00:00+00:00'"
)


@pytest.mark.parametrize("time_column", [None, "born"])
def test_verify_names_a_live_block_of_another_time_column_and_repair_writes_it_anew(
    time_column: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier releases took such blocks in; none is taken in any more."""
    world = World.manual(seed=1, now_ms=1_700_000_000_000)
    bucket = MemoryBucket(world.clock)
    index_log.create(bucket, world, Definition.create(TIMED, time_column="at"))
    table = Table.open_bucket(bucket, world)
    row = {
        "at": [datetime(2013, 1, 3, tzinfo=UTC)],
        "born": [datetime(1990, 1, 1, tzinfo=UTC)],
        "n": [1],
    }
    table.append(pa.table(row, schema=TIMED))
    other = build_block(
        bucket,
        world,
        Definition.create(TIMED, time_column=time_column),
        pa.table(row, schema=TIMED),
    )
    assert other is not None
    with monkeypatch.context() as earlier:
        earlier.setattr(rules, "_reason_to_leave", lambda *_: None)
        publish(bucket, world, table.log, other)
    assert other.ulid in table.log.poll().blocks
    [finding] = verify(bucket, world)
    assert (finding.severity, finding.check, finding.block) == (
        Severity.WARNING,
        Check.TIME,
        other.ulid,
    )
    assert f"its time column is {time_column!r}" in finding.what or time_column is None
    target = Target(
        bucket=bucket,
        world=world,
        log=table.log,
        definition=table.definition,
        catalog=table.catalog,
    )
    plan = plan_repair(bucket, world, target, RepairOptions(blocks=(other.ulid,)))
    assert [done.failed for done in carry_out(bucket, target, plan)] == [False]
    assert verify(bucket, world).findings == ()
    assert table.snapshot().scan(where=JANUARY).to_table()["n"].to_pylist() == [1, 1]


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("time_column", [None, "born"])
def test_a_block_of_another_time_column_is_refused_or_read_whole(
    indexed: bool, time_column: str | None
) -> None:
    world = World.manual(seed=1, now_ms=1_700_000_000_000)
    bucket, folder = MemoryBucket(world.clock), MemoryBucket(world.clock, "memory://device")
    row = {
        "at": [datetime(2013, 1, 3, tzinfo=UTC)],
        "born": [datetime(1990, 1, 1, tzinfo=UTC)],
        "n": [1],
    }
    build_block(
        folder,
        world,
        Definition.create(TIMED, time_column=time_column),
        pa.table(row, schema=TIMED),
    )
    definition = Definition.create(TIMED, time_column="at")
    if indexed:
        index_log.create(bucket, world, definition)
    else:
        declare(bucket, world, definition)
        world.clock.sleep(3600)
        declare(bucket, world, definition)
    report = Shipper(folder, bucket, world).once()
    assert indexed == bool(report.refused)
    world.clock.sleep(3600)
    snapshot = Table.open_bucket(bucket, world, discovery=None if indexed else "list").snapshot()
    found = snapshot.scan(where=JANUARY).to_table()["n"].to_pylist()
    assert found == ([] if report.refused else [1])


def test_retention_knows_no_age_by_another_time_column() -> None:
    world = World.manual(seed=1, now_ms=1_700_000_000_000)
    bucket = MemoryBucket(world.clock)
    now = datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC)
    row = {"at": [now], "born": [datetime(1990, 1, 1, tzinfo=UTC)], "n": [1]}
    other = build_block(
        bucket, world, Definition.create(TIMED, time_column="born"), pa.table(row, schema=TIMED)
    )
    world.clock.sleep(3600)
    keep = Properties.parse({"retention": "30d"})
    declare(bucket, world, Definition.create(TIMED, time_column="at", properties=keep))
    world.clock.sleep(3600)
    table = Table.open_bucket(bucket, world, discovery="list", properties={"retention": "30d"})
    assert table.snapshot().scan().to_table()["n"].to_pylist() == [1]
    assert other is not None
    assert other.max_time < world.clock.now_ms() - 30 * 86_400_000
    assert plan_retention(table).blocks == ()
