"""Long lists of sources: exact after their bytes, refused when damaged."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.errors import Corrupt
from blockstore.format.sources import (
    INLINE,
    decode_sources,
    encode_sources,
    hash_sources,
    write_sources,
)
from tests.blockstore.format.blocks import A, B, C

MANY = tuple(f"01JD{number:022d}" for number in range(INLINE + 1))


def test_a_long_list_is_the_same_after_its_bytes() -> None:
    assert decode_sources(encode_sources(MANY), "x") == MANY


def test_the_hash_is_of_the_list_and_not_of_the_file() -> None:
    assert hash_sources((A, B)) == hash_sources([A, B]) != hash_sources((B, A))


def test_only_a_long_list_is_written() -> None:
    bucket = MemoryBucket(ManualClock())
    assert write_sources(bucket, C, MANY[:INLINE]) is None
    file = write_sources(bucket, C, MANY)
    assert file is not None
    data = bucket.get(f"{C}/sources.parquet").data
    assert (file.bytes, file.rows, decode_sources(data, "x")) == (len(data), len(MANY), MANY)


def parquet(**columns: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    "data",
    [b"", b"PAR1", encode_sources(MANY)[:-9], parquet(other=[A]), parquet(source=[1]),
     parquet(source=["x"]),
     parquet(source=[None]), parquet(source=[B, A]), parquet(source=[A, A])],
)  # fmt: skip
def test_a_damaged_file_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match=r"block X: sources\.parquet"):
        decode_sources(data, "block X")
