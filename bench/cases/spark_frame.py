"""The Spark session and the rows of the Spark benches: one session for all contestants of a turn.

pyspark is imported where it is used: every bench imports this module, and few need it.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["SETTINGS", "medians", "rows", "session", "url_of"]

SETTINGS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}
"""What the guide tells users of ``format("blockstore")`` to set."""


def session() -> Any:
    """``local[2]``, as the guide's "Tuning" has it; the one that there is already, if any."""
    from pyspark.sql import SparkSession

    from blockstore.spark.settings import JVM_OPTIONS, UNIX_SOCKETS

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "3g")
        .config("spark.driver.extraJavaOptions", JVM_OPTIONS)
        .config(UNIX_SOCKETS, "true")
        .getOrCreate()
    )


def rows(spark: Any, count: int) -> Any:
    """``count`` rows of six columns: two numbers, a time, a double, a word of ten, a text that
    repeats nowhere."""
    from pyspark.sql import functions as sf

    words = ("ATL", "BOS", "DEN", "EWR", "JFK", "LAX", "LGA", "MIA", "ORD", "SFO")
    mixed = sf.xxhash64("id")
    return spark.range(0, count, 1, 4).select(
        "id",
        sf.timestamp_seconds(sf.lit(1_700_000_000) + sf.col("id") / 1000).alias("time"),
        sf.element_at(
            sf.array(*map(sf.lit, words)), (sf.pmod(mixed, sf.lit(10)) + 1).cast("int")
        ).alias("origin"),
        (sf.pmod(mixed, sf.lit(2**40)) / sf.lit(2.0**40)).alias("value"),
        sf.pmod(mixed, sf.lit(1_000)).cast("int").alias("delay"),
        sf.hex(mixed).alias("note"),
    )


def url_of(directory: Path, name: str, *, durable: bool) -> str:
    """A table in the contestant's folder."""
    return f"{(directory / name).as_uri()}{'' if durable else '?durable=false'}"


def medians(
    ways: Mapping[str, Callable[[Path], object]], directory: Path, times: int
) -> dict[str, float]:
    """The median seconds of each way; they take turns, each time in a fresh folder, after one turn
    that is not timed."""
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(times + 1):
        for name, way in ways.items():
            place = directory / f"{name}-{turn}"
            started = time.perf_counter()
            way(place)
            if turn:
                spent[name].append(time.perf_counter() - started)
            shutil.rmtree(place, ignore_errors=True)
    return {name: statistics.median(seconds) for name, seconds in spent.items()}
