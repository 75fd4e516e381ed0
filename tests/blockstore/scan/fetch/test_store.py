"""What is kept stays within its bounds, and the least recently used goes first."""

from __future__ import annotations

from blockstore.format.block import ChunkFile
from blockstore.format.segments import SEGMENT_BYTES
from blockstore.scan.fetch.bounded import Bounded
from blockstore.scan.fetch.store import MemoryStore


def file(name: str, segments: int = 8) -> ChunkFile:
    return ChunkFile(
        path="chunks/000001.parquet", bytes=segments * SEGMENT_BYTES - 5, rows=1, sha256=name * 64
    )


def test_segments_come_back_by_file_and_number() -> None:
    store = MemoryStore()
    data = bytes(range(256)) * (3 * SEGMENT_BYTES // 256)
    store.keep(file("a"), 5, data[:-5])
    assert store.load(file("a"), 5) == data[:SEGMENT_BYTES]
    assert store.load(file("a"), 7) == data[2 * SEGMENT_BYTES : -5]
    assert store.load(file("a"), 4) is None
    assert store.load(file("b"), 5) is None


def test_the_store_keeps_the_segments_that_were_used_last() -> None:
    store = MemoryStore(limit_bytes=4 * SEGMENT_BYTES)
    for number in range(4):
        store.keep(file("a"), number, bytes(SEGMENT_BYTES))
    assert store.load(file("a"), 0) is not None
    store.keep(file("a"), 4, bytes(SEGMENT_BYTES))
    assert [store.load(file("a"), number) is not None for number in range(5)] == [
        True,
        False,
        True,
        True,
        True,
    ]


def test_a_piece_of_more_than_half_the_store_does_not_displace_the_rest() -> None:
    store = MemoryStore(limit_bytes=4 * SEGMENT_BYTES)
    store.keep(file("a"), 0, bytes(SEGMENT_BYTES))
    store.keep(file("b"), 0, bytes(3 * SEGMENT_BYTES))
    assert store.load(file("a"), 0) is not None
    assert store.load(file("b"), 0) is None


def test_the_weight_is_that_of_what_is_held() -> None:
    held: Bounded[str, int] = Bounded(10)
    held.put("a", 1, 4)
    held.put("a", 2, 6)
    held.put("b", 3, 4)
    assert (held.weight, held.get("a"), held.get("b")) == (10, 2, 3)
    held.put("c", 4, 11)
    assert held.get("c") is None
    held.put("c", 4, 5)
    assert (held.weight, held.get("a"), held.get("b"), held.get("c")) == (9, None, 3, 4)
    held.drop("b")
    held.drop("b")
    assert held.weight == 5
