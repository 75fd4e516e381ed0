"""Files whose bytes have changed since they were written."""

from __future__ import annotations

import random
from collections.abc import Iterator
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq


def parquet_with_a_wrong_page(rows: pa.Table) -> bytes:
    """A file whose pages have checksums, and in whose first page one bit of a value is not as it
    was: everything but the checksum is right."""
    out = BytesIO()
    pq.write_table(rows, out, compression="none", use_dictionary=False, write_page_checksum=True)
    data = bytearray(out.getvalue())
    column = pq.ParquetFile(BytesIO(bytes(data))).metadata.row_group(0).column(0)
    data[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    return bytes(data)


def flipped(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """The bytes ``count`` times, each time with one to three bits of them changed."""
    draw = random.Random(seed)
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(draw.randint(1, 3)):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        yield bytes(changed)
