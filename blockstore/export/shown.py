"""The chunks of a version, and the rows of each that the version does not show.

Rows are hidden by newer versions of them (``scan/current.py``), are deletions themselves, or are of
writes that a merge has absorbed and the version leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.bucket.api import ReadBucket
from blockstore.format.chunk_reader import read_batches
from blockstore.scan.chunk import Positions, ScanChunk
from blockstore.scan.execute import resolve
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.view import TableSnapshot


def planned(view: TableSnapshot) -> ScanPlan:
    """Return the plan of everything that a version shows."""
    return resolve(view.bucket, plan_scan(view.snapshot), view.world)


def shown_of(bucket: ReadBucket, chunks: list[ScanChunk]) -> Iterator[tuple[ScanChunk, Positions]]:
    """Yield the chunks that show rows, each with the positions of those that are left out."""
    for chunk in chunks:
        positions = _left_out(bucket, chunk)
        if len(positions) < chunk.file.rows:
            yield chunk, positions


def _left_out(bucket: ReadBucket, chunk: ScanChunk) -> Positions:
    """Return the positions, sorted, of the rows of a resolved chunk that are not shown."""
    if chunk.hidden is None and not chunk.filtered:
        return np.empty(0, np.int64)
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


def _among(source: pa.Array, wanted: frozenset[str]) -> np.ndarray:
    among = pc.is_in(source.cast(pa.string()), value_set=pa.array(sorted(wanted), pa.string()))
    return among.to_numpy(zero_copy_only=False)
