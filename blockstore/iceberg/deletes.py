"""The rows of a chunk that a version does not show, as Iceberg's position deletes.

Rows are hidden by newer versions of them (``scan/current.py``), are deletions themselves, or are of
writes that a merge has absorbed and the version leaves out.
"""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from blockstore.bucket.api import ReadBucket
from blockstore.format.chunk_reader import read_batches
from blockstore.format.fields import FIELD_ID
from blockstore.scan.chunk import Positions, ScanChunk

_PATH, _POSITION = 2147483546, 2147483545
"""The ids that Iceberg reserves for the columns of position deletes."""

_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {FIELD_ID: str(_PATH).encode()}),
        pa.field("pos", pa.int64(), False, {FIELD_ID: str(_POSITION).encode()}),
    ]
)


def left_out(bucket: ReadBucket, chunk: ScanChunk) -> Positions:
    """Return the positions, sorted, of the rows of a resolved chunk that are not shown."""
    found = np.zeros(chunk.file.rows, dtype=bool)
    if chunk.hidden is not None:
        found[chunk.hidden] = True
    if chunk.filtered:
        first = 0
        for batch in read_batches(bucket, chunk.key, chunk.file, ["_source"]):
            source = batch.column("_source")
            own = np.zeros(len(batch), dtype=bool)
            if chunk.sources is not None:
                own |= ~_among(source, chunk.sources)
            if chunk.excepted is not None:
                own |= _among(source, chunk.excepted)
            found[first : first + len(batch)] |= own
            first += len(batch)
    return np.flatnonzero(found)


def delete_file(path: str, positions: Positions) -> tuple[str, bytes]:
    """Return the name and the bytes of the file that deletes these positions of a data file."""
    digest = hashlib.sha256(path.encode() + b"\0" + positions.astype("<i8").tobytes()).hexdigest()
    rows = pa.table(
        [pa.repeat(pa.scalar(path), len(positions)), pa.array(positions)], schema=_SCHEMA
    )
    out = io.BytesIO()
    pq.write_table(rows, out, compression="zstd")
    return f"deletes-{digest[:32]}.parquet", out.getvalue()


def _among(source: pa.Array, wanted: frozenset[str]) -> np.ndarray:
    among = pc.is_in(source.cast(pa.string()), value_set=pa.array(sorted(wanted), pa.string()))
    return among.to_numpy(zero_copy_only=False)
