"""The chunks of a version, and the rows of each that the version does not show.

Rows are hidden by newer versions of them (``scan/current.py``), are deletions themselves, or are of
writes that a merge has absorbed and the version leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.bucket.api import ReadBucket
from blockstore.format.block import BlockKind, StreamKey
from blockstore.format.chunk_reader import read_batches
from blockstore.scan.chunk import Positions, ScanChunk
from blockstore.scan.execute import resolve
from blockstore.scan.hiders import Hiders
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.view import TableSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Everything that a version shows."""

    plan: ScanPlan
    """It says which rows of each chunk newer versions hide."""
    hiders: Mapping[StreamKey, Hiders]
    """The chunks that may hide rows."""

    def since(self, chunk: ScanChunk) -> int | None:
        """The newest version that may have hidden a row of a chunk, by the range of its
        identities; None where that is not known."""
        identity = self.plan.identity
        if chunk.filtered or identity is None:
            return None
        hiders = self.hiders[chunk.stream].of(chunk) if chunk.stream in self.hiders else []
        own = [] if chunk.kind is BlockKind.PLAIN else [chunk]
        newest = [one.versions[1] for one in (*hiders, *own)]
        known = [version for version in newest if version is not None]
        return max(known) if known and len(known) == len(newest) else None


def planned(view: TableSnapshot) -> Shown:
    """Return everything that a version shows."""
    plan = plan_scan(view.snapshot)
    changes: dict[StreamKey, list[ScanChunk]] = {}
    for chunk in plan.changes:
        changes.setdefault(chunk.stream, []).append(chunk)
    identity = plan.identity
    hiders = {} if identity is None else {s: Hiders(own, identity) for s, own in changes.items()}
    return Shown(plan=resolve(view.bucket, plan, view.world), hiders=hiders)


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
