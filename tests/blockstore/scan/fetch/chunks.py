"""Chunks with segments in a bucket in memory, and stores that return something else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.bucket.api import Bucket, Object
from blockstore.bucket.wrapper import Wrapper
from blockstore.format.block import ChunkFile, SegmentsFile
from blockstore.format.footer import footer_start
from blockstore.format.segments import FileHashes, encode_segments
from blockstore.names import chunk_path, object_key, segments_path
from blockstore.scan.fetch.remote import Remote

ULID = "01KA5C3M2Q0V8E6R9T1W4Y7ZBN"
TAIL_BYTES = 20_000


def rows(count: int = 60_000, seed: int = 0) -> pa.Table:
    """Rows of which a chunk takes some 10 bytes each."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "n": np.arange(count),
            "f": rng.random(count),
            "s": pa.array([f"t{n % 11}" for n in range(count)]),
        }
    )


def store_chunk(
    bucket: Bucket,
    table: pa.Table,
    *,
    number: int = 1,
    segments: bool = True,
    footer: bool = True,
    **options: Any,
) -> tuple[Remote, bytes]:
    """Store a chunk of one block, and the hashes of its segments; return its bytes too."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **{"write_page_index": True, **options})
    data = sink.getvalue().to_pybytes()
    path = chunk_path(number)
    hashes = FileHashes()
    hashes.update(data)
    encoded = encode_segments([hashes.segments(path)])
    ref = SegmentsFile(bytes=len(encoded), sha256=hashlib.sha256(encoded).hexdigest())
    tail = len(data) - footer_start(data, len(data)) + TAIL_BYTES
    file = ChunkFile(
        path=path,
        bytes=len(data),
        rows=table.num_rows,
        sha256=hashes.sha256,
        footer=min(tail, len(data)) if footer else None,
    )
    key = object_key(ULID, path)
    bucket.put(key, data)
    if segments:
        bucket.put(object_key(ULID, segments_path(ref.sha256)), encoded)
    remote = Remote(
        bucket=bucket, block=ULID, key=key, file=file, segments=ref if segments else None
    )
    return remote, data


class Altered(Wrapper):
    """A bucket that returns something else for some reads: the first ones, or all."""

    def __init__(self, inner: Bucket, alter: Callable[[bytes], bytes], times: int = 10**9) -> None:
        super().__init__(inner)
        self._alter = alter
        self.left = times
        self.only = ""
        """Only objects whose keys contain this."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._altered(key, self.inner.get_range(key, start, length))

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        found = self.inner.get(key, if_none_match=if_none_match)
        return Object(data=self._altered(key, found.data), etag=found.etag)

    def _altered(self, key: str, data: bytes) -> bytes:
        if self.only not in key or self.left <= 0:
            return data
        self.left -= 1
        return self._alter(data)


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def shortened(data: bytes) -> bytes:
    return data[: len(data) // 2]


def holed(data: bytes) -> bytes:
    return bytes(len(data))


def foreign(data: bytes) -> bytes:
    """Another object's bytes, as many."""
    return hashlib.sha256(data).digest() * (len(data) // 32) + bytes(len(data) % 32)


DAMAGES = [flipped, shortened, holed, foreign]
