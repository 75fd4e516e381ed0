"""Every operation on rows that have an identity, killed before and after each of its writes, with
the response of each of its calls lost.

Then the table shows the rows from before or those from after, and a result means after; the same
call by a fresh process, with the same job where the operation takes one, counts once; others
continue as if nothing had happened; and a check of every row finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.care.finding import Severity
from blockstore.care.verify import verify
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.operations.access import Access
from blockstore.rows.expire import expire_rows
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.operations.lake import small_chunks
from tests.blockstore.rows.lake import by_id, by_key, rows_of
from tests.support.faulty import FaultyBucket, Killed, crash_points
from tests.support.tally import tally

pytestmark = pytest.mark.usefixtures("decoded_once")

JOB = bs.Job("nightly", 1)

Act = Callable[[Table], Any]
Seen = list[tuple[Any, ...]]


def row(key: int, n: int) -> dict[str, Any]:
    return {"id": key, "name": "a", "n": n}


def keyed() -> Table:
    table = by_key(sort_by=["n"])
    table.upsert(rows_of(*(row(key, key) for key in range(6))))
    table.upsert(rows_of(row(1, 10), row(2, 20)))
    table.delete_rows([3])
    return table


def numbered() -> Table:
    table = by_id(sort_by=["n"])
    table.append(pa.table({"name": ["a"] * 6, "n": list(range(6))}))
    table.update({"n": pc.field("n") + 10}, where="n < 3")
    table.delete_rows([3])
    return table


def keyed_at_sites() -> Table:
    """Rows of two sets of labels."""
    table = by_key(sort_by=["n"])
    table.upsert(rows_of(row(0, 0), row(1, 1)))
    table.upsert(rows_of(row(1, 100)), labels={"site": "x"})
    return table


def numbered_at_sites() -> Table:
    table = by_id(sort_by=["n"])
    table.append(pa.table({"name": ["a", "b"], "n": [0, 1]}))
    table.append(pa.table({"name": ["a"], "n": [100]}), labels={"site": "x"})
    return table


def merged() -> Table:
    """The same table, merged until there is nothing more to do: former versions are in blocks that
    the newest version no longer names."""
    table = keyed()
    before = table.poll()
    compact_once(table, Settings(tier_blocks=2, work_dir=Path("/tmp")))
    assert table.poll() > before
    return table


def expiring(table: Table) -> list[str]:
    """The block of version 3, as long as it is live."""
    return [block.ulid for block in table.log.poll().blocks if block.version == 3]


NEW = rows_of(row(1, 7), row(9, 9))
BY_KEY: dict[str, Act] = {
    "upsert": lambda table: table.upsert(NEW, job=JOB),
    "insert": lambda table: table.insert(NEW, on_conflict="ignore", job=JOB),
    "update": lambda table: table.update({"n": pc.field("n") + 1}, where="n > 3", job=JOB),
    "delete rows": lambda table: table.delete_rows([0, 1], job=JOB),
    "delete by condition": lambda table: table.delete("n > 4"),
    "cells": lambda table: table.set_cells([{"id": 1, "n": 5}, {"id": 4, "name": "b"}], job=JOB),
    "put rows": lambda table: table.put_rows(NEW, job=JOB),
    "merge": lambda table: (
        table.merge(NEW, on="id", job=JOB)
        .when_matched_update({"n": pc.field("target.n") + pc.field("source.n")})
        .when_not_matched_insert()
        .when_not_matched_by_source_delete(condition=pc.field("target.n") > 4)
        .execute()
    ),
    "revert": lambda table: table.revert(3, 4),
    "restore": lambda table: table.restore(version=2),
    "overwrite": lambda table: table.overwrite(NEW, job=JOB),
    "overwrite by condition": lambda table: table.overwrite(NEW, where="id = 1 or id = 9", job=JOB),
    "expire": lambda table: expire_rows(
        Access.of(table.bucket, table.world, table.log), expiring(table), "manual"
    ),
}
BY_ID: dict[str, Act] = {
    "append": lambda table: table.append(pa.table({"name": ["x"], "n": [1]}), job=JOB),
    "update": lambda table: table.update({"n": pc.field("n") + 1}, where="n > 3", job=JOB),
    "delete rows": lambda table: table.delete_rows([0, 1], job=JOB),
    "cells": lambda table: table.set_cells([{"_row_id": 1, "n": 5}], job=JOB),
    "cells, new, deleted": lambda table: table.set_cells(
        [{"_row_id": 1, "n": 5}],
        new=pa.table({"name": ["x"], "n": [1]}),
        delete=[{"_row_id": 0}],
        job=JOB,
    ),
    "put rows": lambda table: table.put_rows(
        pa.table({"_row_id": pa.array([0, None], pa.int64()), "name": ["p", "q"], "n": [8, 9]}),
        job=JOB,
    ),
    "merge": lambda table: (
        table.merge(pa.table({"n": [5, 6]}), on="n", job=JOB)
        .when_matched_update({"name": "m"})
        .when_not_matched_insert()
        .execute()
    ),
    "revert": lambda table: table.revert(2, 3),
    "restore": lambda table: table.restore(version=2),
    "overwrite": lambda table: table.overwrite(pa.table({"name": ["x"], "n": [1]}), job=JOB),
}
MERGED: dict[str, Act] = {
    "revert": lambda table: table.revert(3, 4),
    "restore": lambda table: table.restore(version=2),
    "update": lambda table: table.update({"n": pc.field("n") + 1}, where="n > 3", job=JOB),
}
ACTS = {
    "sites: update": (
        keyed_at_sites,
        lambda table: table.update({"n": pc.field("n") + 1}, where="id = 1", job=JOB),
    ),
    "sites: delete ids": (
        numbered_at_sites,
        lambda table: table.delete_rows([0, 2], job=JOB),
    ),
    **{f"merged: {name}": (merged, act) for name, act in MERGED.items()},
    **{f"key: {name}": (keyed, act) for name, act in BY_KEY.items()},
    **{f"ids: {name}": (numbered, act) for name, act in BY_ID.items()},
}


@pytest.fixture(autouse=True)
def blocks_of_several_chunks() -> Iterator[None]:
    with small_chunks():
        yield


@dataclass
class Copy:
    """The same table in a bucket of its own."""

    bucket: MemoryBucket
    now_ms: int

    @classmethod
    def of(cls, table: Table) -> Copy:
        assert isinstance(table.bucket, MemoryBucket)
        now_ms = table.world.clock.now_ms()
        bucket = MemoryBucket(World.manual(seed=0, now_ms=now_ms).clock)
        for found in table.bucket.list():
            bucket.put(found.key, table.bucket.get(found.key).data)
        return cls(bucket, now_ms)

    def open(self, bucket: Any = None, seed: int = 1) -> Table:
        world = World.manual(seed=seed, now_ms=self.now_ms)
        return Table.open_bucket(bucket or self.bucket, world)

    def seen(self) -> Seen:
        """The current rows, by their identity."""
        table = self.open(seed=2)
        names = [*table.snapshot().snapshot.columns.visible.names]
        names += ["_row_id"] if "_row_id" in table.definition.identity.columns else []
        rows = table.snapshot().scan(columns=names).to_table().to_pylist()
        return sorted((tuple(one.values()) for one in rows), key=repr)

    def check(self, point: str) -> None:
        world = World.manual(seed=3, now_ms=self.now_ms)
        report = verify(self.bucket, world, deep=True)
        assert not [one for one in report if one.severity is Severity.ERROR], (point, report)


def run(act: Act, copy: Copy, bucket: FaultyBucket) -> Any:
    """What the act returned; None if the process died, or an error was raised."""
    try:
        return act(copy.open(bucket))
    except (Killed, bs.BlockstoreError):
        return None


@pytest.mark.parametrize("name", ACTS)
def test_all_or_nothing_at_every_point_and_once_after_a_retry(name: str) -> None:
    make, act = ACTS[name]
    base = make()
    whole = Copy.of(base)
    before = whole.seen()
    counting = FaultyBucket(whole.bucket)
    assert run(act, whole, counting) is not None
    after = whole.seen()
    assert after != before
    assert len(counting.writes) >= 3, "a chunk, its meta.json, an entry"
    for fault, call in crash_points(counting.calls):
        point = f"{name}: {fault} {call}"
        tally("crash points")
        copy = Copy.of(base)
        argument: Any = {call.number} if fault == "lose_answer" else call.number
        did = run(act, copy, FaultyBucket(copy.bucket, **{fault: argument}))
        found = copy.seen()
        assert found in (before, after), point
        if did is not None:
            assert found == after, point
        act(copy.open(seed=4))
        assert copy.seen() == after, point
        if not call.writes:
            continue
        assert not [
            tag for tag in copy.open(seed=5).log.state.tags if tag.startswith("_restore_")
        ], point
        copy.check(point)
