"""Moments that Parquet files of others hold as INT96.

Rules:
- They are read in microseconds. In nanoseconds, which pyarrow reads by itself, 64 bits reach from
  1677 to 2262, and a moment beyond wraps into them: 9999-12-31 is one in 1816.
- A moment that microseconds cannot hold is refused, before a row of the file is passed on. So is
  one beyond nanoseconds, where a library reads the file that cannot be asked for another unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.errors import Invalid

UNIT: Final = "us"
"""The unit in which INT96 is read."""

_UNITS = {"us": "microseconds", "ns": "nanoseconds"}
_ROWS = 65_536


def int96_columns(metadata: pq.FileMetaData) -> list[str]:
    """Return the columns of a file that hold INT96, also within nested ones."""
    leaves = (metadata.schema.column(place) for place in range(metadata.num_columns))
    old = [f"{leaf.path}." for leaf in leaves if leaf.physical_type == "INT96"]
    if not old:
        return []
    names = dict.fromkeys(metadata.schema.to_arrow_schema().names)
    return [name for name in names if any(path.startswith(f"{name}.") for path in old)]


def check_int96(
    name: str, opened: Callable[[str], pq.ParquetFile], *, reach: Literal["us", "ns"] = UNIT
) -> None:
    """Refuse a file one of whose INT96 moments is not a whole number of microseconds, or so far
    away that the unit of ``reach`` does not reach it.

    Args:
        name: What the error calls the file.
        opened: Opens the file, INT96 in the given unit.
        reach: The unit in which the rows are read.

    Raises:
        Invalid: There is such a moment.
        pa.ArrowException, OSError: The file cannot be read.
    """
    with opened(UNIT) as held:
        names = int96_columns(held.metadata)
        if not names:
            return
        with opened("ms") as coarse, opened("ns") as fine:
            files = [_batches(one, names) for one in (coarse, held, fine)]
            for rows in _side_by_side(files):
                _compare(name, *rows, reach=reach)


def _compare(
    name: str, coarse: pa.RecordBatch, held: pa.RecordBatch, fine: pa.RecordBatch, *, reach: str
) -> None:
    for column, far, moments, exact in zip(
        held.schema.names, coarse.columns, held.columns, fine.columns, strict=True
    ):
        if moments.type == exact.type:
            continue  # its name begins as that of another one
        # What wraps in nanoseconds wraps by this cast too, to the same integer.
        if not moments.cast(exact.type, safe=False).equals(exact):
            has = "digits below a microsecond"
        elif not _reaches(far, moments.type if reach == UNIT else exact.type):
            has = f"a year that {_UNITS[reach]} do not reach"
        else:
            continue
        raise Invalid(
            f"{name} has a moment with {has} in column {column!r}, stored as INT96, which is read "
            f"in {_UNITS[reach]}: write the file again with timestamps that are INT64"
        )


def _reaches(moments: pa.Array, kind: pa.DataType) -> bool:
    try:
        moments.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


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
