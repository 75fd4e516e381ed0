"""How many requests of an operation must follow one another."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.names import BOUNDARY, entry_key
from blockstore.table import Table
from tests.compactor.scene import Hide
from tests.support.depth import DepthBucket, Time

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = pa.table({"n": [1]}, schema=SCHEMA)


def known() -> tuple[Time, DepthBucket, Table]:
    """A table whose handle has written version 2, and its store."""
    time = Time()
    world = time.world()
    memory = MemoryBucket(time)
    index_log.create(memory, world, Definition.create(SCHEMA))
    bucket = DepthBucket(memory, time)
    table = Table.open_bucket(bucket, world)
    table.append(ROWS)
    return time, bucket, table


def test_an_append_to_a_known_table() -> None:
    _, bucket, table = known()
    with bucket.watch() as seen:
        assert table.append(ROWS).version == 3
    seen.expect(6, "chunk, meta.json, mark, listing, entry, boundary")
    assert seen.waves()[-1] == sorted([f"GET {BOUNDARY}", f"GET {entry_key(2)}"])
    (before,) = [wave for wave in seen.waves()[:-2] if f"GET {entry_key(2)}" in wave]
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
    time, bucket, table = known()
    begun, appended = threading.Event(), threading.Event()
    seen: list[list[str]] = []

    def another() -> None:
        if began_s is not None:
            look_ahead(table)
            time.sleep(began_s)
        begun.set()
        time.wait(appended)
        source = next(iter(table.log.state.blocks)).ulid
        with bucket.watch() as requests:
            hide = Hide(commit=table.world.ids.ulid(), source=source)
            assert table.log.commit(hide).version == 4
        seen.extend(requests.waves())

    def one() -> None:
        time.wait(begun)
        table.append(ROWS)
        appended.set()

    time.together([another, one])
    look, put = [f"GET {entry_key(3)}"], [f"PUT {entry_key(4)}"]
    assert seen == [*[look] * looks, put, sorted([f"GET {BOUNDARY}", *look])]
