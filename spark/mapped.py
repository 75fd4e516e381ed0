"""A plan as a DataFrame over ``mapInArrow``: what the data source reads, planned once in the user's own process.

- Partition k of a range of n numbers reads the k-th of the plan's n shares: one task each, tried again alone.
- Spark copies a row of a data source twice and counts it as it goes by; what ``mapInArrow`` yields it copies once. And no
  process is asked for a plan, at no action.
- Every task is handed the pickled shares of all and opens its own: so a plan of very many chunks is left to the data
  source, which hands each task its own share only.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark.reader import SnapshotReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["mapped_frame"]

MOST_BYTES = 4 * 2**20
"""Pickled shares that every task may be handed."""


def mapped_frame(session: Any, reader: SnapshotReader) -> DataFrame | None:
    """The rows of the reader's plan, or None where its shares are too many for every task to be handed all of them."""
    shares = [pickle.dumps(partition) for partition in reader.partitions()]
    if sum(map(len, shares)) > MOST_BYTES:
        return None
    task = _task(pickle.dumps(reader), shares)
    frame: DataFrame = session.range(0, len(shares), 1, len(shares)).mapInArrow(task, reader.schema)
    return frame


def _task(
    reader: bytes, shares: Sequence[bytes]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from pickle.loads(reader).read(pickle.loads(shares[number]))

    return task
