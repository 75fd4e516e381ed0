"""A plan as a DataFrame over ``mapInArrow``: the data source's rows, planned once in the user's own
process.

- Partition k of a range of n numbers reads the k-th of the plan's n shares: one task each, retried
  alone.
- Spark copies a row of a data source twice and counts it on the way. It copies the rows of
  ``mapInArrow`` once. And no action needs another process to plan.
- Spark assumes that the result of a map has as many rows as the range, and sends a table that it
  believes to be small to every executor. So the range is as long as the plan has rows, and each
  partition keeps only the first of its numbers.
- Every task receives the pickled shares of all tasks and opens its own. So a plan of very many
  chunks is left to the data source, which sends each task its own share only.
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
"""The limit of the pickled shares that every task receives."""

MOST_NUMBERS = 2**27
"""The limit of the range, a tenth of a second of one core's work. Spark never believes a table of
this size to be small."""


def mapped_frame(session: Any, reader: SnapshotReader, rows: int) -> DataFrame | None:
    """The rows of the reader's plan, or None if its shares are too large to send to every task.

    ``rows`` is the upper bound of the number of rows.
    """
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
