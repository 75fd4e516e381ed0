"""Iceberg's position deletes: the rows of a data file that a version does not show."""

from __future__ import annotations

import hashlib
import io

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.format.fields import FIELD_ID
from blockstore.scan.chunk import Positions

_PATH, _POSITION = 2147483546, 2147483545
"""The ids that Iceberg reserves for the columns of position deletes."""

_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {FIELD_ID: str(_PATH).encode()}),
        pa.field("pos", pa.int64(), False, {FIELD_ID: str(_POSITION).encode()}),
    ]
)


def delete_file(path: str, positions: Positions) -> tuple[str, bytes]:
    """Return the name and the bytes of the file that deletes these positions of a data file."""
    digest = hashlib.sha256(path.encode() + b"\0" + positions.astype("<i8").tobytes()).hexdigest()
    rows = pa.table(
        [pa.repeat(pa.scalar(path), len(positions)), pa.array(positions)], schema=_SCHEMA
    )
    out = io.BytesIO()
    pq.write_table(rows, out, compression="zstd")
    return f"deletes-{digest[:32]}.parquet", out.getvalue()
