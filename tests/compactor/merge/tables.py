"""Random tables of awkward keys, and the one correct result of merging them."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

_TEXTS = ["", "\0", "a", "a\0", "a\0\0", "ab", "b", "é", "\uffff", "\U0001f600"]

# Few values each, so that keys repeat within and across batches.
KEY_TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int64(), [-(2**63), -1, 0, 1, 7, 2**63 - 1]),
    "small": (pa.int16(), [-3, 0, 5]),
    "unsigned": (pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
    "double": (pa.float64(), [-math.inf, -1.5, -0.0, 0.0, 1e-300, 2.5, math.inf, math.nan]),
    "float": (pa.float32(), [-2.5, 0.0, 0.5, math.nan]),
    "text": (pa.string(), [*_TEXTS, "z" * 70, "z" * 70 + "a"]),
    "bytes": (pa.binary(), [b"", b"\x00", b"\x00a", b"a", b"a\x00", b"\xff"]),
    "bool": (pa.bool_(), [False, True]),
    "decimal": (
        pa.decimal128(20, 2),
        [Decimal("-1.50"), Decimal("0.00"), Decimal("99999999999999999.99")],
    ),
    "day": (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(2013, 1, 1)]),
    "time": (pa.timestamp("ns", tz="UTC"), [-1, 0, 1_700_000_000_123_456_789]),
}


def column(name: str, values: list[Any]) -> pa.Array:
    """A key column; timestamps are given as integers."""
    kind = KEY_TYPES[name][0]
    return (
        pa.array(values, pa.int64()).cast(kind)
        if pa.types.is_timestamp(kind)
        else pa.array(values, kind)
    )


@st.composite
def keyed_runs(
    draw: st.DrawFn, *, max_runs: int = 5, max_rows: int = 30
) -> tuple[list[str], list[pa.Table]]:
    """A sort key of one to three columns, and tables, not yet sorted, with those and a ``row`` of
    their own."""
    keys = draw(st.lists(st.sampled_from(sorted(KEY_TYPES)), min_size=1, max_size=3, unique=True))
    runs = []
    for number in range(draw(st.integers(1, max_runs))):
        rows = draw(st.integers(0, max_rows))
        columns = {}
        for name in keys:
            value = st.one_of(st.sampled_from(KEY_TYPES[name][1]), st.none())
            columns[name] = column(name, draw(st.lists(value, min_size=rows, max_size=rows)))
        columns["row"] = pa.array([number * 1_000 + row for row in range(rows)], pa.int64())
        runs.append(pa.table(columns))
    return keys, runs


def sort_stable(table: pa.Table, keys: list[str]) -> pa.Table:
    """The table in the order that pyarrow itself gives it: the reference."""
    table = table.combine_chunks()
    return table.sort_by([(name, "ascending") for name in keys])
