"""Timelines made by hand: the shape of a table that has lived for a while, at any size."""

from __future__ import annotations

import random

from blockstore.clock import ManualClock
from blockstore.format.block import StreamKey
from blockstore.ids import Ids
from blockstore.service.pages.timeline import Shade, Timeline, TimelineBlock

NOW_MS = 1_795_000_000_000
HOUR_MS = 3_600_000
STREAMS = (
    StreamKey((("cluster", "eu1"),), 0),
    StreamKey((("cluster", "us1"),), 0),
    StreamKey((("cluster", "us1"), ("tier", "archive")), 300_000),
)


def lived_in(count: int, *, table: str = "readings", seed: int = 7, **fields: object) -> Timeline:
    """``count`` blocks in three streams: small ones of today, larger ones before, and some in every
    other state."""
    rng = random.Random(seed)
    clock = ManualClock(NOW_MS)
    ids = Ids.seeded(clock, seed)
    blocks = []
    per_stream = [count - 2 * (count // 3), count // 3, count // 3]
    for stream, members in zip(STREAMS, per_stream, strict=True):
        for place in range(members):
            blocks.append(_block(rng, ids, stream, place / members))
    blocks.sort(key=lambda block: block.ulid)
    base: dict[str, object] = {
        "version": 1_204,
        "boundary": 310,
        "tags": {"q3-close": 290},
        "time_column": "time",
    }
    return Timeline(table=table, now_ms=NOW_MS, blocks=tuple(blocks), **{**base, **fields})  # type: ignore[arg-type]


def _block(rng: random.Random, ids: Ids, stream: StreamKey, age: float) -> TimelineBlock:
    """The older the data the higher the level and the longer the block."""
    level = 1 if age < 0.45 else 2 if age < 0.75 else 3 if age < 0.92 else 4
    length = {1: HOUR_MS / 4, 2: 2 * HOUR_MS, 3: 8 * HOUR_MS, 4: 48 * HOUR_MS}[level]
    back = {1: 60, 2: 300, 3: 500, 4: 700}[level] * HOUR_MS * rng.random()
    start = int((NOW_MS - back) // length * length)
    shade = rng.choices(list(Shade), weights=[86, 3, 5, 3, 1, 0, 2])[0]
    rows = int(20_000 * 4 ** (level - 1) * rng.uniform(0.4, 1.6))
    return TimelineBlock(
        ulid=ids.ulid(),
        stream=stream,
        level=level,
        min_time=start,
        max_time=int(start + length),
        rows=rows,
        bytes=rows * 21,
        sources=4 ** (level - 1),
        shade=shade,
        reason=_REASONS.get(shade, ""),
        no_compact=shade is Shade.QUARANTINED or rng.random() < 0.01,
        version=None if shade in (Shade.FRESH, Shade.PARTIAL) else rng.randrange(1, 1_204),
    )


_REASONS = {
    Shade.FRESH: "younger than sync_delay",
    Shade.SUPERSEDED: "the index accounts for its sources without it",
    Shade.MARKED: "marked superseded",
    Shade.DELETING: "marked superseded for longer than delete_delay",
    Shade.QUARANTINED: "chunks/000001.parquet is missing",
}
