"""Parquet files in memory: of our own writer's kind, and of programs that tell less."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.format.thrift_writer import i64

__all__ = ["ENCODINGS", "counted_short", "parquet"]

ENCODINGS = ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "dictionary")


def parquet(
    table: pa.Table, encoding: str = "PLAIN", *, index: bool = True, group_rows: int = 1 << 20
) -> pa.BufferReader:
    """A file whose texts have this encoding; with a page index, or without one as older programs
    write."""
    texts = [
        field.name
        for field in table.schema
        if pa.types.is_string(field.type) or pa.types.is_binary(field.type)
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=1,
        row_group_size=group_rows,
        use_dictionary=texts if encoding == "dictionary" else False,
        column_encoding=None if encoding == "dictionary" else dict.fromkeys(texts, encoding),
        write_page_index=index,
    )
    return pa.BufferReader(sink.getvalue())


def counted_short(data: bytes, short: int) -> bytes:
    """The same file with a footer that states fewer bytes of its first column chunk than it has:
    as by a writer that does not count the headers of pages. Its number must be in the footer twice
    at least, as without compression, and its new one must have as many bytes."""
    size = pq.read_metadata(pa.BufferReader(data)).row_group(0).column(0).total_compressed_size
    (length,) = struct.unpack("<I", data[-8:-4])
    start = len(data) - 8 - length
    (_, old), (_, new) = i64(size), i64(size - short)
    assert len(old) == len(new)
    plain = data.index(old, start)
    at = data.index(old, plain + 1)
    return data[:at] + new + data[at + len(old) :]
