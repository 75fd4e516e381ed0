"""Moments that Parquet files of others hold as INT96.

Rules:
- They are read in microseconds. In nanoseconds, which pyarrow reads by itself, 64 bits reach from
  1677 to 2262, and a moment beyond wraps into them: 9999-12-31 is one in 1816.
- A moment that microseconds cannot hold is refused, before a row of the file is passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.errors import Invalid

UNIT = "us"
"""The unit in which INT96 is read."""

_ROWS = 65_536


def int96_columns(metadata: pq.FileMetaData) -> list[str]:
    """Return the columns of a file that hold INT96, also within nested ones."""
    leaves = (metadata.schema.column(place) for place in range(metadata.num_columns))
    old = [f"{leaf.path}." for leaf in leaves if leaf.physical_type == "INT96"]
    if not old:
        return []
    names = dict.fromkeys(metadata.schema.to_arrow_schema().names)
    return [name for name in names if any(path.startswith(f"{name}.") for path in old)]


def check_int96(name: str, opened: Callable[[str], pq.ParquetFile]) -> None:
    """Refuse a file one of whose INT96 moments is not a whole number of microseconds, or so far
    away that microseconds do not reach it.

    Args:
        name: What the error calls the file.
        opened: Opens the file, INT96 in the given unit.

    Raises:
        Invalid: There is such a moment.
        pa.ArrowException, OSError: The file cannot be read.
    """
    with opened(UNIT) as held:
        names = int96_columns(held.metadata)
        if not names:
            return
        with opened("ms") as coarse, opened("ns") as fine:
            _compare(name, names, (coarse, held, fine))


def _compare(name: str, names: list[str], files: tuple[pq.ParquetFile, ...]) -> None:
    for coarse, held, fine in _side_by_side([_batches(one, names) for one in files]):
        for column, far, moments, exact in zip(
            held.schema.names, coarse.columns, held.columns, fine.columns, strict=True
        ):
            if moments.type == exact.type:
                continue  # its name begins as that of another one
            # What wraps in nanoseconds wraps by this cast too, to the same integer.
            if not moments.cast(exact.type, safe=False).equals(exact):
                _refuse(name, column, "digits below a microsecond")
            try:
                far.cast(moments.type)
            except pa.ArrowInvalid:
                _refuse(name, column, "a year that microseconds do not reach")


def _refuse(name: str, column: str, has: str) -> None:
    raise Invalid(
        f"{name} has a moment with {has} in column {column!r}, stored as INT96, which is read in "
        "microseconds: write the file again with timestamps that are INT64"
    )


def _batches(file: pq.ParquetFile, names: list[str]) -> Iterator[pa.RecordBatch]:
    for group in range(file.num_row_groups):
        yield from file.iter_batches(_ROWS, row_groups=[group], columns=names)


def _side_by_side(streams: list[Iterator[pa.RecordBatch]]) -> Iterator[list[pa.RecordBatch]]:
    """Yield the same rows of each stream, however each one cuts its batches."""
    held = [pa.record_batch({})] * len(streams)
    while True:
        for place, stream in enumerate(streams):
            while not len(held[place]):
                batch = next(stream, None)
                if batch is None:
                    return
                held[place] = batch
        rows = min(map(len, held))
        yield [batch.slice(0, rows) for batch in held]
        held = [batch.slice(rows) for batch in held]
