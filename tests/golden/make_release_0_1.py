"""Makes ``release_0_1/table``: a table as release 0.1.0 wrote it, by its own code. Run it with that
release, never with a newer one:

    python -m tests.golden.make_release_0_1

Its entries name no predecessor, its objects carry no check, its checkpoints no digest of their
content. A collection has run, so that the boundary is above 0 and only a checkpoint tells what was
before.
"""

from __future__ import annotations

import platform
from pathlib import Path

import pyarrow as pa

import blockstore as bs
from blockstore.bucket.local import LocalBucket
from blockstore.format import Definition
from blockstore.index import log as index_log
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.gc import collect
from blockstore.table import Table
from blockstore.world import World

FOLDER = Path(__file__).parent / "release_0_1" / "table"
SCHEMA = pa.schema([("sensor", pa.string()), ("reading", pa.int64())])
DAY_S = 86_400


def main() -> None:
    """Write the table."""
    if FOLDER.exists():
        raise SystemExit("the golden table exists: golden bytes are never written again")
    platform.node = lambda: "golden"
    world = World.manual()
    bucket = LocalBucket(FOLDER, world.clock, durable=False)
    index_log.create(bucket, world, Definition.create(SCHEMA, sort_by=["sensor"]))
    table = Table.open_bucket(bucket, world)
    for number in range(4):
        world.clock.sleep(60)
        table.append(rows(number), job=bs.Job(app="nightly", batch=number))
    table.tag("four")
    table.delete("reading = 21")
    table.overwrite(rows(9, sensor="s1"), where="sensor = 's1'")
    write_checkpoint(bucket, table.log.state)
    for number in (5, 6):
        world.clock.sleep(3 * DAY_S)
        table.append(rows(number))
    assert collect(table.log, world).entries
    table.append(rows(7))


def rows(number: int, sensor: str | None = None) -> pa.Table:
    """Ten readings of one sensor."""
    readings = range(10 * number, 10 * number + 10)
    return pa.table(
        {"sensor": [sensor or f"s{number}"] * 10, "reading": list(readings)}, schema=SCHEMA
    )


if __name__ == "__main__":
    main()
