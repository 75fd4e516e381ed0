"""A plan as a DataFrame over ``mapInArrow``: what the data source reads, planned once in the user's
own process.

- Partition k of a range of n numbers reads the k-th of the plan's n shares: one task each, tried
  again alone.
- Spark copies a row of a data source twice and counts it as it goes by; what ``mapInArrow`` yields
  it copies once. And no process is asked for a plan, at no action.
- Spark takes what it maps to have as many rows as the range, and sends a table that it believes to
  be small to every executor. So the range is as long as the plan has rows, and each partition keeps
  the first of its numbers.
- Every task is handed the pickled shares of all and opens its own: so a plan of very many chunks is
  left to the data source, which hands each task its own share only.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from blockstore.spark.reading.data_source import SnapshotReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


MOST_BYTES = 4 * 2**20
"""Pickled shares that every task may be handed."""


MOST_NUMBERS = 2**27
"""Numbers that the ranges have at most, and a tenth of a second of one core's work: no such table
is believed to be small."""


def mapped_frame(session: Any, reader: SnapshotReader, rows: int) -> DataFrame | None:
    """The rows of the reader's plan, or None where its shares are too many for every task to be
    handed all of them. ``rows`` is how many there may be."""
    shares = [pickle.dumps(partition) for partition in reader.partitions()]
    if sum(map(len, shares)) > MOST_BYTES:
        return None
    each = max(1, min(rows, MOST_NUMBERS) // max(1, len(shares)))
    task = _task(pickle.dumps(reader), shares, each)
    numbers = session.range(0, len(shares) * each, 1, len(shares)).where(f"id % {each} = 0")
    frame: DataFrame = numbers.mapInArrow(task, reader.schema)
    return frame


def _task(
    reader: bytes, shares: Sequence[bytes], each: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from pickle.loads(reader).read(pickle.loads(shares[number // each]))

    return task
