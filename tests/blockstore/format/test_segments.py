"""Segments: every byte of a file is in one, damage of any of them is named, and nothing but the
bytes that were written is believed."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.block import ChunkFile, SegmentsFile
from blockstore.format.segments import (
    SEGMENT_BYTES,
    WHOLE_BYTES,
    FileHashes,
    FileSegments,
    decode_segments,
    encode_segments,
    load_segments,
    packed,
    segments_in,
)
from blockstore.names import segments_path
from tests.blockstore.format.blocks import SHA, A

SIZES = [0, 1, 65_535, 65_536, 65_537, 131_072, 200_000]
MIB = 1 << 20


def content(size: int) -> bytes:
    """Bytes that differ from segment to segment."""
    return hashlib.shake_128(str(size).encode()).digest(size)


def segments_of(data: bytes, path: str = "chunks/000001.parquet") -> FileSegments:
    hashes = FileHashes()
    hashes.update(data)
    return hashes.segments(path)


def chunk(file: FileSegments) -> ChunkFile:
    return ChunkFile(path=file.path, bytes=file.bytes, rows=1, sha256=SHA)


def named(data: bytes) -> SegmentsFile:
    return SegmentsFile(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize("size", SIZES)
def test_each_segment_has_the_hash_of_its_bytes(size: int) -> None:
    data = content(size)
    found = segments_of(data)
    pieces = [data[at : at + SEGMENT_BYTES] for at in range(0, size, SEGMENT_BYTES)]
    assert found.digests == b"".join(hashlib.sha256(piece).digest() for piece in pieces)
    assert len(pieces) == segments_in(size)
    found.check(0, data)
    for number, piece in enumerate(pieces):
        found.check(number, piece)


@given(size=st.sampled_from(SIZES), cuts=st.lists(st.integers(0, 200_000), max_size=6))
def test_the_pieces_in_which_a_file_is_written_do_not_matter(size: int, cuts: list[int]) -> None:
    data = content(size)
    hashes = FileHashes()
    ends = [0, *sorted(min(cut, size) for cut in cuts), size]
    for start, end in pairwise(ends):
        hashes.update(memoryview(data)[start:end])
    assert hashes.segments("chunks/1.parquet") == segments_of(data, "chunks/1.parquet")
    assert (hashes.bytes, hashes.sha256) == (size, hashlib.sha256(data).hexdigest())


@given(size=st.sampled_from(SIZES[1:]), where=st.integers(0), bit=st.integers(0, 7))
def test_a_flipped_bit_is_named_by_its_segment(size: int, where: int, bit: int) -> None:
    data = bytearray(content(size))
    found = segments_of(bytes(data))
    at = where % size
    data[at] ^= 1 << bit
    first = at // SEGMENT_BYTES * SEGMENT_BYTES
    last = min(size, first + SEGMENT_BYTES)
    with pytest.raises(
        Corrupt, match=f"chunks/000001.parquet: the bytes from {first:,} to {last:,}"
    ):
        found.check(0, bytes(data))


@given(size=st.sampled_from(SIZES[1:]), first=st.integers(-1, 5), length=st.integers(0, 300_000))
def test_only_whole_segments_are_believed(size: int, first: int, length: int) -> None:
    """A range that ends early, or reaches beyond the file, is never taken for a right one."""
    data = content(size)
    start = first * SEGMENT_BYTES
    end = start + length
    found = segments_of(data)
    if first >= 0 and end <= size and (end == size or end % SEGMENT_BYTES == 0):
        found.check(first, data[start:end])
        return
    with pytest.raises(Corrupt, match="expected whole segments"):
        found.check(first, (data[max(0, start) :] + b"\0" * 600_000)[:length])


def test_the_segments_of_another_place_are_not_those_of_this_one() -> None:
    data = content(200_000)
    with pytest.raises(Corrupt, match="do not match"):
        segments_of(data).check(1, data[:SEGMENT_BYTES])


@given(st.lists(st.sampled_from(SIZES), max_size=5))
def test_the_object_is_the_same_after_its_bytes(sizes: list[int]) -> None:
    files = [
        segments_of(content(size), f"chunks/{number:06d}.parquet")
        for number, size in enumerate(sizes)
    ]
    data = encode_segments(files)
    found = decode_segments(data, [chunk(file) for file in files], named(data))
    assert list(found.values()) == files
    assert list(found) == [file.path for file in files]
    if files:
        assert decode_segments(data, [chunk(files[0])], named(data)) == found


ONE = segments_of(content(200_000))
DATA = encode_segments([ONE])


def test_no_bit_of_the_object_can_lie() -> None:
    for bit in range(8 * len(DATA)):
        damaged = bytearray(DATA)
        damaged[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(Corrupt, match="run blockstore repair"):
            decode_segments(bytes(damaged), [chunk(ONE)], named(DATA))


def test_an_object_of_another_size_is_corrupt() -> None:
    for data in (b"", DATA[:-1], DATA + b"\0"):
        with pytest.raises(Corrupt, match="are not the"):
            decode_segments(data, [chunk(ONE)], named(DATA))


def head(**changes: object) -> bytes:
    value = orjson.loads(DATA.partition(b"\n")[0]) | changes
    return orjson.dumps(value) + b"\n" + ONE.digests


TWICE = {"path": ONE.path, "bytes": ONE.bytes}


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"{}\n", b"[]\n", ONE.digests, DATA[:-32], DATA + b"\0" * 32,
     head(version=2), head(version="1"), head(segment_bytes=1024), head(files=None),
     head(files=[]), head(files=[TWICE, TWICE]), head(files=[{"path": "../x", "bytes": 1}]),
     head(files=[{"path": "chunks/2.parquet", "bytes": 200_000}]),
     head(files=[{"path": ONE.path, "bytes": 199_999}]),
     head(files=[{"path": ONE.path, "bytes": -1}]), head(files=[{"path": ONE.path}])],
)  # fmt: skip
def test_what_contradicts_itself_or_the_block_is_corrupt(data: bytes) -> None:
    """Also where it is what was written: by a program that has errors."""
    with pytest.raises(Corrupt):
        decode_segments(data, [chunk(ONE)], named(data))


def test_only_a_block_with_a_large_chunk_has_the_object() -> None:
    small = FileSegments("chunks/1.parquet", WHOLE_BYTES, b"\0" * 32 * 16)
    large = FileSegments("chunks/2.parquet", WHOLE_BYTES + 1, b"\0" * 32 * 17)
    assert packed([]) is None
    assert packed([small, small]) is None
    found = packed([small, large])
    assert found is not None
    assert found == (encode_segments([small, large]), named(found[0]))


def test_the_object_is_found_by_its_hash() -> None:
    bucket = MemoryBucket(ManualClock())
    ref = named(DATA)
    with pytest.raises(ObjectMissing):
        load_segments(bucket, A, ref, [chunk(ONE)])
    bucket.put(f"{A}/{segments_path(ref.sha256)}", DATA)
    assert load_segments(bucket, A, ref, [chunk(ONE)]) == {ONE.path: ONE}
    with pytest.raises(Corrupt, match=A):
        load_segments(bucket, A, replace(ref, bytes=1), [chunk(ONE)])
