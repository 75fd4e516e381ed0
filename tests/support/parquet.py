"""Parquet files in memory: of our own writer's kind, and of programs that tell less."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["ENCODINGS", "parquet"]

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
