"""One bit of a stored object is flipped: a reader gets the same as before, or an error that it is
damaged; never another thing.

Each object that decides what a table is has a test: a checkpoint, an entry, meta.json, the hashes
of segments, both marks, the boundary and the hint. What protects them: the seal at the beginning of
every JSON object, the zeros before the boundary's digits, the hashed JSON, the counts and the
content's digest of a checkpoint, the SHA-256 that a block names.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import BlockstoreError
from blockstore.format import Job
from blockstore.format.marks import (
    MarkReason,
    NoCompactReason,
    decode_deletion_mark,
    decode_no_compact_mark,
)
from blockstore.format.meta import decode
from blockstore.format.segments import decode_segments
from blockstore.index.boundary import encode_boundary
from blockstore.index.checkpoint import decode_checkpoint
from blockstore.index.checkpoint_name import read_hint
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.entry import decode_entry
from blockstore.index.log import Log, create
from blockstore.index.tags import tag
from blockstore.lifecycle.mark import place_deletion, place_no_compact
from blockstore.names import (
    BOUNDARY,
    HINT,
    checkpoint_key,
    deletion_mark_key,
    entry_key,
    meta_key,
    no_compact_mark_key,
    object_key,
)
from blockstore.table import Table
from blockstore.world import World
from tests.support.index_data import DEFINITION
from tests.support.segments import segments_everywhere, segments_key
from tests.support.tally import tally

ROWS = pa.table({"key": [1, 2, 3], "text": ["a", "b", "c"]})
VERSION = 6
SAMPLE = int(os.environ.get("BLOCKSTORE_FLIPPED_BITS", "4000"))
"""So many bits of the checkpoint; 0 for all of them, in the long run.

Of everything else every bit, always.
"""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A small table with one of each."""

    bucket: MemoryBucket
    world: World
    block: str

    def data(self, key: str) -> bytes:
        return self.bucket.get(key).data


@pytest.fixture(scope="module")
def stored() -> Stored:
    world = World.manual(seed=24)
    bucket = MemoryBucket(world.clock)
    table = Table(bucket, world, create(bucket, world, DEFINITION))
    with segments_everywhere():
        block = table.append(ROWS).ulid
    table.append(ROWS, job=Job(app="nightly", batch=17))
    tag(table.log, world, "close", 2)
    table.delete("key = 2")
    table.append(ROWS, message="the last")
    assert table.log.state.version == VERSION
    write_checkpoint(bucket, table.log.state)
    place_deletion(
        bucket, world, block, MarkReason.MANUAL, "under examination", superseded_by=block
    )
    place_no_compact(bucket, world, block, NoCompactReason.MANUAL, "under examination")
    return Stored(bucket=bucket, world=world, block=block)


def flipped(data: bytes, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << (bit % 8)
    return bytes(damaged)


def judge(
    name: str, data: bytes, read: Callable[[bytes], Any], bits: Iterable[int] | None = None
) -> int:
    """Flip each bit: the same, or a BlockstoreError; return how many were found to be damage."""
    right = read(data)
    found = total = 0
    for bit in range(8 * len(data)) if bits is None else bits:
        total += 1
        try:
            learned = read(flipped(data, bit))
        except BlockstoreError:
            found += 1
        else:
            assert learned == right, (
                f"bit {bit} of {len(data)} bytes of {name} was flipped and not detected"
            )
    tally(f"bits flipped of {name}", total)
    tally("bits flipped and ignored", 0)
    return found


def some(data: bytes, seed: int) -> Iterable[int]:
    every = range(8 * len(data))
    return random.Random(seed).sample(every, min(SAMPLE, len(every))) if SAMPLE else every


def test_no_bit_of_a_checkpoint_can_lie(stored: Stored) -> None:
    data = stored.data(checkpoint_key(VERSION))
    assert judge(
        "a checkpoint", data, lambda one: decode_checkpoint(one, version=VERSION), some(data, 1)
    )


def test_no_bit_of_an_entry_can_lie(stored: Stored) -> None:
    for entry in (1, 3, VERSION):
        data = stored.data(entry_key(entry))
        assert judge("an entry", data, lambda one, entry=entry: decode_entry(one, entry_id=entry))


def test_no_bit_of_a_meta_json_can_lie(stored: Stored) -> None:
    """A flipped bit in the seal's own name makes it an unknown field, which is kept, and says
    nothing."""
    data = stored.data(meta_key(stored.block))
    assert judge(
        "a meta.json", data, lambda one: replace(decode(one, ulid=stored.block), unknown=b"")
    )


def test_no_bit_of_the_hashes_of_segments_can_lie(stored: Stored) -> None:
    """What a reader may not believe costs speed: the block's files are then read whole."""
    meta = decode(stored.data(meta_key(stored.block)), ulid=stored.block)
    data = stored.data(segments_key(meta))
    assert meta.segments is not None
    ref = meta.segments
    found = judge("segments", data, lambda one: decode_segments(one, meta.files, ref))
    assert found == 8 * len(data)


def test_no_bit_of_a_segment_can_lie(stored: Stored) -> None:
    meta = decode(stored.data(meta_key(stored.block)), ulid=stored.block)
    assert meta.segments is not None
    (file,) = meta.files
    data = stored.data(object_key(meta.ulid, file.path))
    known = decode_segments(stored.data(segments_key(meta)), meta.files, meta.segments)[file.path]

    def read(one: bytes) -> bytes:
        known.check(0, one)
        return one

    assert judge("a segment", data, read) == 8 * len(data)


def test_no_bit_of_a_mark_can_lie(stored: Stored) -> None:
    deletion, kept = deletion_mark_key(stored.block), no_compact_mark_key(stored.block)
    assert judge(
        "a mark", stored.data(deletion), lambda one: decode_deletion_mark(one, ulid=stored.block)
    )
    assert judge(
        "a mark", stored.data(kept), lambda one: decode_no_compact_mark(one, ulid=stored.block)
    )


@pytest.mark.parametrize("boundary", [0, 4])
def test_no_bit_of_the_boundary_can_lie(stored: Stored, boundary: int) -> None:
    """Read with its table: a digit before all others makes a number beyond all entries, and the
    index is empty above it."""
    bucket = copy(stored.bucket, stored.world)
    if boundary:
        write_checkpoint(bucket, Log(bucket, stored.world).at(boundary))
        bucket.put(BOUNDARY, encode_boundary(boundary))
        bucket.delete([entry_key(entry) for entry in range(1, boundary + 1)])

    def read(data: bytes) -> Any:
        bucket.put(BOUNDARY, data)
        log = Log(bucket, stored.world)
        return log.poll(), log.boundary.read()

    data = bucket.get(BOUNDARY).data
    assert judge("the boundary", data, read) == 8 * len(data)


def test_no_bit_of_the_hint_can_lie(stored: Stored) -> None:
    """Not even a wrong guess comes of it; and a wrong one would cost requests only."""
    data = stored.data(HINT)
    right = read_hint(stored.bucket)
    assert right is not None
    bucket = MemoryBucket(stored.world.clock)

    def read(one: bytes) -> Any:
        bucket.put(HINT, one)
        return read_hint(bucket) or right

    assert judge("the hint", data, read) == 0


def test_a_table_of_which_one_bit_is_flipped_answers_the_same_or_an_error(stored: Stored) -> None:
    """End to end, and as a reader by listing, to whom meta.json and marks are the table."""
    draw = random.Random(3)
    keys = [info.key for info in stored.bucket.list() if not info.key.endswith("001.parquet")]
    for key in keys:
        bucket = copy(stored.bucket, stored.world)

        def read(data: bytes, key: str = key, bucket: MemoryBucket = bucket) -> Any:
            bucket.put(key, data)
            tables = [
                Table.open_bucket(bucket, stored.world, discovery=how, strict=True)
                for how in ("index", "list")
            ]
            return tables[0].log.state, [one.snapshot().scan().to_table() for one in tables]

        data = stored.data(key)
        bits = [draw.randrange(8 * len(data)) for _ in range(20)]
        judge("any object, end to end", data, read, bits)


def copy(bucket: MemoryBucket, world: World) -> MemoryBucket:
    copied = MemoryBucket(world.clock)
    for info in bucket.list():
        copied.put(info.key, bucket.get(info.key).data)
    return copied
