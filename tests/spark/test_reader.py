"""Chunks gathered into Spark partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as hs

from blockstore.format import ChunkFile
from blockstore.scan.chunk import ScanChunk
from spark.reader import gathered


def chunks(sizes: list[int]) -> list[ScanChunk]:
    return [
        ScanChunk(
            block="B",
            key=str(number),
            file=ChunkFile(path=f"chunks/{number}.parquet", bytes=size, rows=1, sha256=""),
            schema_id=1,
            labels={},
            source=None,
        )
        for number, size in enumerate(sizes)
    ]


@given(hs.lists(hs.integers(1, 100)), hs.integers(1, 100))
def test_every_chunk_is_read_by_one_partition_in_order_and_none_is_larger_than_asked(
    sizes: list[int], limit: int
) -> None:
    given_chunks = chunks(sizes)
    runs = gathered(given_chunks, limit)
    assert [chunk for run in runs for chunk in run] == given_chunks
    assert all(len(run) <= 1 or sum(chunk.file.bytes for chunk in run) <= limit for run in runs)


def test_a_table_without_chunks_is_one_empty_partition() -> None:
    """Spark takes an empty list for a source without partitions and reads None."""
    assert gathered([], 100) == [()]
