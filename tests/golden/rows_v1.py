"""The rows of the golden table of format version 1, as the program has them; its bytes must say the
same."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("time", pa.timestamp("us", "UTC")),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("delay", pa.float64(), metadata={"blockstore.description": "minutes"}),
        pa.field("seats", pa.uint64()),
        pa.field("price", pa.decimal128(38, 2)),
        pa.field("day", pa.date32()),
        pa.field("local", pa.timestamp("ns", "Europe/Berlin")),
        pa.field("on_time", pa.bool_()),
        pa.field("raw", pa.binary()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("place", pa.struct([("lat", pa.float32()), ("lon", pa.float32())])),
        pa.field("counts", pa.map_(pa.string(), pa.int32())),
        pa.field("nothing", pa.int8()),
    ]
)


def _row(number: int, origin: str) -> dict[str, object]:
    time = datetime(2013, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    return {
        "time": time,
        "origin": origin,
        "delay": (float("inf"), float("nan"), None, -0.0, 1.5)[number % 5],
        "seats": 2**64 - 1 - number,
        "price": Decimal(f"1234567890123456789012345678901234{number}.67"),
        "day": date(1969, 12, 30) + timedelta(days=number),
        "local": time,
        "on_time": None if number == 2 else number % 2 == 0,
        "raw": bytes([255, number]),
        "tags": None if number == 1 else ["é" * 70, None][: number % 3],
        "place": None if number == 3 else {"lat": 40.5, "lon": None},
        "counts": [("a", number), ("b", None)],
        "nothing": None,
    }


FIRST = pa.Table.from_pylist(
    [_row(n, o) for n, o in enumerate(["JFK", "EWR", "LGA", "EWR"])], SCHEMA
)
SECOND = pa.Table.from_pylist(
    [_row(n, o) for n, o in enumerate(["EWR", "JFK", "z" * 70], start=4)], SCHEMA
)
