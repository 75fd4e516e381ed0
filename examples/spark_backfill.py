"""Fill a year again, day by day, in any order, next to the nightly job.

    python examples/spark_backfill.py [FOLDER]

Each day is an overwrite of that day's rows, in one version, and a batch of its own. A day that was
written is not written again, whatever the order of the days and however often the backfill starts.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import blockstore as bs
from blockstore import spark as bs_spark

FIRST = dt.date(2024, 1, 1)


def readings(session: SparkSession, day: dt.date, factor: int):
    """Made-up readings of one day: sensor, day, value."""
    return session.range(1_000).select(
        sf.concat(sf.lit("s"), sf.col("id") % 10).alias("sensor"),
        sf.lit(day).alias("day"),
        (sf.col("id") * factor).alias("value"),
    )


def fill(session: SparkSession, url: str, day: dt.date):
    """Write one day, once."""
    return bs_spark.overwrite(
        readings(session, day, factor=2),
        url,
        where=f"day = DATE '{day}'",
        job=bs.Job(app="backfill-2024", batch=(day - FIRST).days),
        any_order=True,
        message=f"filled again: {day}",
    )


def main(session: SparkSession, url: str) -> None:
    days = [FIRST + dt.timedelta(days=number) for number in range(3)]
    for number, day in enumerate(days):
        # The rows of the nightly job, which turned out to be wrong.
        rows = readings(session, day, factor=1)
        job = bs.Job(app="nightly", batch=number)
        bs_spark.append(rows, url, time_column="day", sort_by=["day", "sensor"], job=job)

    for day in (days[2], days[0], days[2]):
        done = fill(session, url, day)
        print(f"{day}: {'was written before, by' if done.already else 'is'} version {done.version}")

    table = bs_spark.read(session, url)
    sums = (
        table.groupBy("day")
        .agg(sf.sum("value").alias("total"), sf.count("*").alias("rows"))
        .orderBy("day")
    )
    for row in sums.collect():
        print(f"{row.day}: {row.rows:,} rows, total {row.total:,}")
    print(bs_spark.how(table))


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
            main(spark, os.path.join(folder, "readings"))
    spark.stop()
