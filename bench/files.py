"""Files that are not there: what a table's metadata says of them, so that a table of very many is
made in seconds.

The same for every contestant: a file a second, of a thousand rows each, sorted by an integer, and
the least and the greatest value of each column. ``blockstore.simulation.large`` makes the like.
"""

from __future__ import annotations

import pyarrow as pa

__all__ = ["BYTES", "ROWS", "SCHEMA", "bounds", "key", "name"]

SCHEMA = pa.schema(
    [("time", pa.timestamp("us", tz="UTC")), ("id", pa.int64()), ("value", pa.float64())]
)
ROWS = 1_000
BYTES = 20_000
_FIRST_US = 1_700_000_000_000_000
_APART_US = 1_000_000


def name(number: int) -> str:
    """What a file is called."""
    return f"part-{number:08d}.parquet"


def bounds(number: int) -> tuple[tuple[int, int, float], tuple[int, int, float]]:
    """The least and the greatest values of a file, in the order of the columns, the time in
    microseconds."""
    at_us, first = _FIRST_US + _APART_US * number, number * ROWS
    least, greatest = number / 8, number / 8 + 99.5
    return (at_us, first, least), (at_us + _APART_US - 1_000, first + ROWS - 1, greatest)


def key(number: int) -> int:
    """An ``id`` that is in this file only."""
    return number * ROWS + ROWS // 2
