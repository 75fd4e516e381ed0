"""``sources.parquet``: the list of a block's sources where it is too long for meta.json.

Rules: up to 1,000 sources are stored in meta.json; more are stored in this file, one column
``source``, sorted, without duplicates, and meta.json has their count and the SHA-256 of their texts
joined by newlines. The file is written with the chunks, before meta.json.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa

from blockstore.bucket.api import Bucket
from blockstore.errors import Corrupt
from blockstore.format.block import ChunkFile
from blockstore.format.unreadable import UNREADABLE
from blockstore.names import is_ulid, object_key, sources_path

INLINE = 1000
"""At most this many sources are stored in meta.json itself."""


def hash_sources(sources: Sequence[str]) -> str:
    """Return the SHA-256 of a list of sources, in either place."""
    return hashlib.sha256("\n".join(sources).encode()).hexdigest()


def encode_sources(sources: Sequence[str]) -> bytes:
    """Return the bytes of ``sources.parquet``."""
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    table = pa.table({"source": pa.array(sources, pa.string())})
    pq.write_table(table, sink, compression="zstd", compression_level=3, use_dictionary=False)
    return bytes(sink.getvalue())


def decode_sources(data: bytes, subject: str) -> tuple[str, ...]:
    """Return the sources in the bytes of ``sources.parquet``; raise Corrupt, naming ``subject``."""
    import pyarrow.parquet as pq

    try:
        found = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)["source"].to_pylist()
    except (*UNREADABLE, KeyError) as error:
        raise Corrupt(
            f"{subject}: {sources_path()} cannot be read ({error}): restore it from a copy"
        ) from None
    if not all(isinstance(source, str) and is_ulid(source) for source in found):
        raise Corrupt(
            f"{subject}: {sources_path()} holds other values than ULIDs: restore it from a copy"
        )
    if any(left >= right for left, right in pairwise(found)):
        raise Corrupt(f"{subject}: {sources_path()} is not sorted, or names a source twice")
    return tuple(found)


def write_sources(bucket: Bucket, ulid: str, sources: Sequence[str]) -> ChunkFile | None:
    """Write the block's ``sources.parquet`` if it needs one; return its item for ``files``."""
    if len(sources) <= INLINE:
        return None
    data = encode_sources(sources)
    bucket.put(object_key(ulid, sources_path()), data)
    return ChunkFile(
        path=sources_path(),
        bytes=len(data),
        rows=len(sources),
        sha256=hashlib.sha256(data).hexdigest(),
    )
