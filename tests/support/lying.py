"""A checkpoint whose footer lies: fewer rows than were written, every page whole, the hashed JSON
as it was."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.bucket.api import Bucket
from blockstore.names import checkpoint_key

__all__ = ["lie", "lying"]


def lying(data: bytes, lost: int = 1) -> bytes:
    """The same checkpoint without its last blocks, which is what a flipped bit of a row group's
    ``num_rows`` makes of it."""
    file = pq.ParquetFile(pa.BufferReader(data))
    table = file.read()
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, table.schema, store_schema=False, use_dictionary=False, write_page_checksum=True
    ) as writer:
        writer.write_table(table.slice(0, table.num_rows - lost))
        writer.add_key_value_metadata(
            {
                key: value
                for key, value in file.metadata.metadata.items()
                if key.startswith(b"blockstore")
            }
        )
    return sink.getvalue().to_pybytes()


def lie(bucket: Bucket, version: int) -> None:
    """Let the checkpoint of a version lie."""
    key = checkpoint_key(version)
    bucket.put(key, lying(bucket.get(key).data))
