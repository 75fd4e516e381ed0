"""A nightly task of a scheduler such as Airflow, which runs a failed task again.

    python examples/spark_retry.py [FOLDER]

The task names its write by its content (the application and the day), never by the time of its run.
So it is always safe to run again: after an error, after a timeout that hid a success, or by a
person who is not sure.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import tempfile
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import blockstore as bs
from blockstore import spark as bs_spark

RETRIES = 3


def load_day(session: SparkSession, url: str, day: dt.date):
    """The task: the python_callable of an operator.

    ``day`` is the scheduler's logical date.
    """
    rows = session.range(500).select(sf.lit(day).alias("day"), sf.col("id").alias("order"))
    job = bs.Job(app="orders-nightly", batch=day.toordinal())
    return bs_spark.append(rows, url, time_column="day", sort_by=["day", "order"], job=job)


def scheduled(task: Callable[[], object]) -> object:
    """Run the task like a scheduler: again after an error that may pass, and not after others."""
    for attempt in range(1, RETRIES + 1):
        try:
            return task()
        except (bs.Unavailable, bs.Indeterminate, bs.Conflict, ConnectionError) as error:
            print(f"attempt {attempt} failed: {type(error).__name__}")
    raise RuntimeError(f"the task failed {RETRIES} times")


def main(session: SparkSession, url: str) -> None:
    day = dt.date(2024, 1, 1)
    lost = iter([True, False])

    def task() -> object:
        written = load_day(session, url, day)
        if next(lost, False):
            # The rows are in the table and the scheduler does not know: the worst case for retries.
            raise ConnectionError("the worker was lost after its write")
        return written

    written = scheduled(task)
    print(
        f"written once, by version {written.version}; this attempt wrote nothing: {written.already}"
    )

    tomorrow = load_day(session, url, day + dt.timedelta(days=1))
    print(f"the next day is version {tomorrow.version}")
    print(f"rows: {bs.open(url).snapshot().count():,}")


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    if len(sys.argv) > 1:
        main(spark, sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(spark, os.path.join(folder, "orders"))
    spark.stop()
