"""How many requests must follow one another to read: open, poll, time travel, history."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.index.gc import collect
from blockstore.names import BOUNDARY, CHECKPOINTS, HINT, INDEX, checkpoint_key, entry_key
from blockstore.table import Table
from blockstore.world import Threads, World
from tests.support.depth import DepthBucket, Time

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = pa.table({"n": [1]}, schema=SCHEMA)

FIRST = sorted([f"GET {BOUNDARY}", f"GET {HINT}", f"LIST {INDEX}*"])


class Scene:
    """A table in memory with some versions, and the same one behind a store that takes a while.

    ``workers`` is how many requests are made at once: with fewer than the entries after the
    checkpoint, these take several round trips.
    """

    def __init__(self, versions: int, workers: int = 64) -> None:
        self.time = Time(workers=workers)
        self.memory = MemoryBucket(self.time)
        index_log.create(self.memory, self.time.world(seed=2), Definition.create(SCHEMA))
        self.near = Table.open_bucket(self.memory, self.time.world(seed=3))
        self.grow(versions - 1)
        self.bucket = DepthBucket(self.memory, self.time)

    def grow(self, count: int) -> None:
        for _ in range(count):
            self.near.append(ROWS)

    def open(self) -> Table:
        return Table.open_bucket(self.bucket, self.time.world(seed=4))


@pytest.mark.parametrize(
    ("versions", "base"), [(1, 0), (24, 0), (63, 0), (64, 64), (70, 64), (300, 256)]
)
def test_open_and_count(versions: int, base: int) -> None:
    scene = Scene(versions)
    with scene.bucket.watch() as seen:
        table = scene.open()
        assert table.snapshot().count() == versions - 1
    tail = versions - base
    # The checkpoint, its own entry, which says whether it is of this history, and the boundary.
    others = len(FIRST) + 2 * (base > 0) + 1
    seen.expect(2, "looks and page, checkpoint and tail and boundary", requests=others + tail)
    assert seen.waves()[0] == FIRST


@pytest.mark.parametrize(("versions", "depth"), [(15, 2), (32, 2), (63, 3)])
def test_open_with_the_threads_of_a_process(versions: int, depth: int) -> None:
    """``World.real`` has 32: each 32 entries after the checkpoint are a round trip."""
    pool = World.real().pool
    assert isinstance(pool, Threads)
    scene = Scene(versions, workers=pool.workers)
    with scene.bucket.watch() as seen:
        assert scene.open().snapshot().version == versions
    seen.expect(depth, "looks and page, the boundary and the tail, 32 at a time")


def test_open_a_table_whose_history_fills_more_than_a_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("blockstore.index.listing._PAGE", 70)
    scene = Scene(70)
    with scene.bucket.watch() as seen:
        assert scene.open().snapshot().version == 70
    seen.expect(3, "looks and page, listings, checkpoint and tail and boundary")
    assert seen.waves()[1] == sorted([f"LIST {INDEX}*", f"LIST {CHECKPOINTS}*"])


def test_open_a_table_whose_index_was_collected() -> None:
    scene = Scene(70)
    scene.time.sleep(49 * 3600)
    scene.grow(2)
    collect(scene.near.log, scene.near.world)
    with scene.bucket.watch() as seen:
        assert scene.open().snapshot().version == 72
    seen.expect(2, "looks and page, checkpoint and tail and boundary")


def test_a_second_snapshot_polls_and_so_does_one_that_comes_later() -> None:
    """What is read when the table is opened serves for half as long as a request takes."""
    scene = Scene(24)
    table = scene.open()
    scene.time.sleep(0.01)
    with scene.bucket.watch() as seen:
        assert table.snapshot().version == 24
    seen.expect(0, "the state that was just read")
    scene.time.sleep(0.01)
    scene.grow(1)
    with scene.bucket.watch() as seen:
        assert table.snapshot().version == 25
    seen.expect(2, "entry and boundary, the next entry and the boundary")


def test_another_handle_of_the_same_process_is_never_overtaken() -> None:
    scene = Scene(3)
    reader, writer = scene.open(), scene.open()
    for version in (4, 5):
        assert writer.append(ROWS).version == version
        assert reader.snapshot().version == version
    writer = scene.open()
    assert scene.open().snapshot().version == 5
    reader = scene.open()
    assert writer.append(ROWS).version == 6
    assert reader.snapshot().version == 6


def test_an_idle_poll() -> None:
    scene = Scene(24)
    table = scene.open()
    for _ in range(3):
        scene.time.sleep(14)
        with scene.bucket.watch() as seen:
            assert table.log.poll().version == 24
        seen.expect(1, "entry and boundary side by side", requests=2)
        assert seen.bytes == 0


def test_an_idle_poll_after_a_long_time_is_in_turn() -> None:
    """Nothing that was read an hour ago says that the next entry was not collected since."""
    scene = Scene(24)
    table = scene.open()
    scene.time.sleep(3600)
    with scene.bucket.watch() as seen:
        table.log.poll()
    seen.expect(2, "entry, boundary", requests=2)
    with scene.bucket.watch() as seen:
        table.log.poll()
    seen.expect(1, "entry and boundary side by side", requests=2)


@pytest.mark.parametrize(("new", "depth"), [(1, 2), (2, 3), (3, 3), (8, 5)])
def test_a_poll_with_news(new: int, depth: int) -> None:
    scene = Scene(24)
    table = scene.open()
    scene.time.sleep(10)
    scene.grow(new)
    with scene.bucket.watch() as seen:
        assert table.log.poll().version == 24 + new
    seen.expect(depth, "what comes next and the boundary, until nothing comes")
    assert f"GET {BOUNDARY}" in seen.waves()[-1], "read after every entry that is new"


TRAVEL: dict[str, tuple[Callable[[Table], object], int, str]] = {
    "a version": (
        lambda table: table.snapshot(version=20).count(),
        3,
        "boundary and listing, entries, boundary",
    ),
    "the newest version by its number": (lambda table: table.snapshot(version=24), 0, "known"),
    "a time": (
        lambda table: table.snapshot(as_of=table.log.state.time_ms - 9_500).count(),
        7,
        "two rounds of entries and boundary, then as a version",
    ),
    "history": (lambda table: list(table.history()), 2, "entries, boundary"),
    "a diff": (
        lambda table: table.diff(20, 24),
        3,
        "boundary and listing, entries, boundary",
    ),
}


@pytest.mark.parametrize("what", TRAVEL)
def test_time_travel_of_an_open_table(what: str) -> None:
    read, depth, chain = TRAVEL[what]
    scene = Scene(1)
    for _ in range(23):
        scene.time.sleep(1)
        scene.grow(1)
    table = scene.open()
    with scene.bucket.watch() as seen:
        read(table)
    seen.expect(depth, chain)


def test_a_version_above_a_checkpoint() -> None:
    scene = Scene(80)
    table = scene.open()
    with scene.bucket.watch() as seen:
        assert table.snapshot(version=70).version == 70
    seen.expect(3, "boundary and listing, checkpoint and entries, boundary")
    assert seen.waves()[1] == sorted(
        [f"GET {checkpoint_key(64)}", *(f"GET {entry_key(entry)}" for entry in range(65, 71))]
    )
