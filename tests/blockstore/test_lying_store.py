"""A store that changes an object under its ETag, or whose clock is an hour off: the same rows as
before, or one sentence; never a wrong row.

A handle that has read an object trusts what it keeps of it only as far as hashes show it: an ETag
saves a request, and decides no row.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import Clock, ManualClock
from blockstore.compactor.by_hand import clean_once
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import BlockstoreError
from blockstore.format.definition import Definition
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.log import create
from blockstore.table import Table
from blockstore.world import World
from tests.support.segments import segments_everywhere
from tests.support.tally import tally

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])
DEFINITION = Definition.create(SCHEMA, sort_by=["key"])
HOUR_S = 3_600.0


def rows(*keys: int) -> pa.Table:
    return pa.table({"key": list(keys), "text": [f"row {key}" for key in keys]}, schema=SCHEMA)


class Lying(MemoryBucket):
    """Objects can be changed, and keep their ETag, their time, and what a listing says."""

    def change(self, key: str, data: bytes) -> None:
        held = self._contents.objects
        held[key] = replace(held[key], data=data)

    def copy(self, clock: Clock) -> Lying:
        """Another store with the same objects."""
        copied = Lying(clock)
        for info in self.list():
            copied.put(info.key, self.get(info.key).data)
        return copied


def made() -> tuple[Lying, World]:
    """A table of some blocks, one of which has hidden rows, with a checkpoint."""
    world = World.manual(seed=9)
    bucket = Lying(world.clock)
    table = Table(bucket, world, create(bucket, world, DEFINITION))
    with segments_everywhere():
        for begin in range(0, 40, 10):
            table.append(rows(*range(begin, begin + 10)))
    table.delete("key = 12")
    write_checkpoint(bucket, table.log.state)
    table.append(rows(40, 41))
    return bucket, world


REFUSED = "refused"
RIGHT = sorted({*range(42)} - {12})


def damages(data: bytes, others: list[bytes], dice: random.Random) -> Iterator[bytes]:
    """What a store may make of an object: a bit, a part, nothing, another one's bytes."""
    for _ in range(2):
        bit = dice.randrange(8 * len(data))
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << (bit % 8)
        yield bytes(changed)
    yield data[: len(data) // 2]
    yield b""
    yield data + data
    yield from others[:1]


def keys_read(table: Table) -> list[int]:
    found: list[int] = table.snapshot().scan().to_table()["key"].to_pylist()
    return sorted(found)


READS: dict[str, tuple[Callable[[Table], object], object]] = {
    "scan": (keys_read, RIGHT),
    "count": (lambda table: table.snapshot().count(), len(RIGHT)),
    "point": (
        lambda table: table.snapshot().scan(where="key = 23").to_table().to_pylist(),
        [{"key": 23, "text": "row 23"}],
    ),
}


@pytest.mark.slow
def test_an_object_that_changes_under_its_etag_is_read_as_before_or_refused() -> None:
    """By a handle that had read it, and by a new one; and what is acknowledged meanwhile is there
    once the object is right again."""
    dice = random.Random(4)
    stored, world = made()
    objects = {info.key: stored.get(info.key).data for info in stored.list()}
    for key, data in objects.items():
        kind = key.rpartition(".")[2]
        others = [one for other, one in objects.items() if other.endswith(kind) and other != key]
        for damaged in damages(data, others, dice):
            bucket = stored.copy(world.clock)
            warm = Table.open_bucket(bucket, world)
            assert keys_read(warm) == RIGHT
            bucket.change(key, damaged)
            for name, (read, right) in READS.items():
                tally("reads of objects that changed under their ETag", 2)
                assert attempt(read, lambda warm=warm: warm) in (right, REFUSED), (name, key)
                opened = partial(Table.open_bucket, bucket, world)
                assert attempt(read, opened) in (right, REFUSED), (name, key)
            is_acknowledged = attempt(lambda table: table.append(rows(100)), lambda warm=warm: warm)
            bucket.change(key, data)
            found = keys_read(Table.open_bucket(bucket, world))
            assert found in (RIGHT, [*RIGHT, 100]), key
            assert is_acknowledged == REFUSED or 100 in found, key


def attempt(read: Callable[[Table], object], opened: Callable[[], Table]) -> object:
    """What was read, or that it was refused, in one sentence."""
    try:
        return read(opened())
    except BlockstoreError as error:
        return REFUSED if "\n" not in str(error) else str(error)


class Off:
    """A clock that differs from another one by a fixed time."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._ms = round(seconds * 1_000)

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._ms

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)


@pytest.mark.parametrize("off_s", [HOUR_S, -HOUR_S])
def test_a_store_whose_clock_is_an_hour_off_costs_no_row(off_s: float) -> None:
    """Appends, an append that takes long, one that is left to its age, merges and removals."""
    world = World.manual(seed=3)
    assert isinstance(world.clock, ManualClock)
    bucket = MemoryBucket(Off(world.clock, off_s))
    table = Table(bucket, world, create(bucket, world, DEFINITION))
    settings = Settings(tier_blocks=2, memory_bytes=64 << 20, concurrency=1)
    expected: list[int] = []
    for round_ in range(12):
        key = 10 * round_
        with table.writer() as slow:
            slow.write(rows(key))
            world.clock.sleep(20 * 60)
            clean_once(Table.open_bucket(bucket, world))
            assert table.append(rows(key + 1)).published
        slow.finish()
        table.append(rows(key + 2), publish=False)
        expected += [key, key + 1]
        found = keys_read(Table.open_bucket(bucket, world))
        assert set(expected) <= set(found)
        assert len(found) == len(set(found))
        world.clock.sleep(8 * HOUR_S)
        for _ in range(2):
            other = Table.open_bucket(bucket, world)
            compact_once(other, settings)
            clean_once(other)
        expected.append(key + 2)
        assert keys_read(Table.open_bucket(bucket, world)) == sorted(expected)
