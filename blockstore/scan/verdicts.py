"""What a plan does with each block of its snapshot: it reads it, or it leaves it out for a reason.

For people who ask why a query is slow; plans themselves never come here. Pure: no byte is read, but
blocks of a table whose rows are versions, and those with hidden writes, become objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from blockstore.format.block import BlockKind
from blockstore.index.derived import Mask
from blockstore.scan.candidates import in_range, time_hull_ms
from blockstore.scan.plan import ScanPlan
from blockstore.scan.snapshot import Snapshot, labels_of


class Verdict(StrEnum):
    """Whether a block is read, or what leaves it out."""

    READ = "read"
    TIME = "time"
    """No time of its range can meet the condition."""
    LABELS = "labels"
    STATISTICS = "statistics"
    """No value within the ranges of its chunks can."""
    HIDDEN = "hidden"
    """All of its writes are hidden, or its rows are all older versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A block of a snapshot, and what a plan does with it."""

    ulid: str
    level: int
    min_time: int
    """Milliseconds."""
    max_time: int
    rows: int
    bytes: int
    labels: Mapping[str, str]
    chunks_read: int
    bytes_read: int
    verdict: Verdict


def verdicts(snapshot: Snapshot, plan: ScanPlan) -> Iterator[Judged]:
    """Yield every block of the snapshot that ``plan`` was made of."""
    read: dict[str, dict[str, int]] = {}
    for chunk in (*plan.chunks, *plan.changes):
        read.setdefault(chunk.block, {})[chunk.key] = chunk.file.bytes
    frame = snapshot.blocks.table()
    time_ms = time_hull_ms(snapshot, plan.predicate)
    in_time, in_stream = in_range(frame, plan.predicate, plan.columns.labels, time_ms)
    hidden = _hidden(snapshot, in_time & in_stream)
    named = ("ulid", "level", "min_time", "max_time", "rows", "bytes", "stream")
    columns = [frame[name].to_pylist() for name in named]
    for place, values in enumerate(zip(*columns, strict=True)):
        ulid, level, low, high, rows, size, stream = values
        chunks = read.get(ulid, {})
        if chunks:
            verdict = Verdict.READ
        elif not in_time[place]:
            verdict = Verdict.TIME
        elif not in_stream[place]:
            verdict = Verdict.LABELS
        else:
            verdict = Verdict.HIDDEN if place in hidden else Verdict.STATISTICS
        yield Judged(
            ulid=ulid,
            level=level,
            min_time=low,
            max_time=high,
            rows=rows,
            bytes=size,
            labels=labels_of(stream),
            chunks_read=len(chunks),
            bytes_read=sum(chunks.values()),
            verdict=verdict,
        )
    for block in snapshot.listed:
        meta, chunks = block.meta, read.get(block.meta.ulid, {})
        yield Judged(
            ulid=meta.ulid,
            level=meta.level,
            min_time=meta.min_time,
            max_time=meta.max_time,
            rows=meta.rows,
            bytes=meta.bytes,
            labels=meta.labels,
            chunks_read=len(chunks),
            bytes_read=sum(chunks.values()),
            # Of what only a listing shows a plan does not say which range it was.
            verdict=Verdict.READ if chunks else Verdict.STATISTICS,
        )


def _hidden(snapshot: Snapshot, wanted: Mask) -> frozenset[int]:
    """The places of blocks that no query of current rows reads, among those that are wanted."""
    column = snapshot.blocks.table()["excepted"]
    some = wanted & np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    if snapshot.definition.identity is not None:
        some = wanted
    places = np.flatnonzero(some).tolist()
    return frozenset(
        place
        for place, block in zip(places, snapshot.blocks.take(places), strict=True)
        if block.meta.kind is BlockKind.HISTORY or block.excepted.issuperset(block.meta.sources)
    )
