"""The rows that the benches write: seeded, so that every contestant gets the same.

One schema for all: five columns, of which ``note`` is random text that no encoding shrinks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

__all__ = ["ORIGINS", "SCHEMA", "of_ids", "ordered", "overlapping", "small"]

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("time", pa.timestamp("us", tz="UTC")),
        pa.field("origin", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("note", pa.string()),
    ]
)
ORIGINS = ("ATL", "BOS", "DEN", "EWR", "JFK", "LAX", "LGA", "MIA", "ORD", "SFO")
START_US = 1_700_000_000_000_000
NOTE_CHARS = 16


def small(tables: int, rows: int, seed: int) -> list[pa.Table]:
    """``tables`` different tables of ``rows`` rows, for appends; made before the clock starts."""
    rng = np.random.default_rng(seed)
    return [_table(np.arange(number * rows, (number + 1) * rows), rng) for number in range(tables)]


def ordered(tables: int, rows: int, seed: int) -> Iterator[pa.Table]:
    """Tables that follow one another in ``id`` and ``time``, as events arrive; ids run from 0
    without a gap."""
    for number in range(tables):
        rng = np.random.default_rng([seed, number])
        yield _table(np.arange(number * rows, (number + 1) * rows), rng)


def overlapping(tables: int, rows: int, seed: int) -> Iterator[pa.Table]:
    """Tables sorted by ``id``, each over the whole key range; a key occurs four times on
    average."""
    keys = max(1, tables * rows // 4)
    for number in range(tables):
        rng = np.random.default_rng([seed, number])
        yield _table(np.sort(rng.integers(0, keys, rows)), rng)


def of_ids(ids: np.ndarray, rng: np.random.Generator) -> pa.Table:
    """A row of each id."""
    return _table(ids, rng)


def _table(ids: np.ndarray, rng: np.random.Generator) -> pa.Table:
    rows = len(ids)
    origins = pa.array(ORIGINS).take(pa.array(ids % len(ORIGINS)))
    times = pa.array(START_US + ids * 1_000).cast(SCHEMA.field("time").type)
    columns = [
        pa.array(ids, pa.int64()),
        times,
        origins,
        pa.array(rng.random(rows)),
        _notes(rows, rng),
    ]
    return pa.table(columns, schema=SCHEMA)


def _notes(rows: int, rng: np.random.Generator) -> pa.Array:
    letters = rng.integers(ord("a"), ord("z") + 1, rows * NOTE_CHARS, dtype=np.uint8)
    offsets = np.arange(0, (rows + 1) * NOTE_CHARS, NOTE_CHARS, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))
