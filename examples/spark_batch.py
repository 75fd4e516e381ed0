"""Write blocks with Spark, read a snapshot of them, and go back in time.

    python examples/spark_batch.py [FOLDER]

One Spark job is one block and one version of the table: a reader sees all of it or none, and
running the same job again (``app`` and ``batch``) changes nothing.
"""

from __future__ import annotations

import os
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import blockstore as bs
from blockstore import spark as bs_spark


def month(session: SparkSession, number: int):
    """Made-up flights of one month: origin, departure, delay in minutes."""
    minutes = sf.col("id") * 17 % (28 * 24 * 60)
    return session.range(50_000).select(
        sf.element_at(
            sf.array(sf.lit("EWR"), sf.lit("JFK"), sf.lit("LGA")),
            (sf.col("id") % 3 + 1).cast("int"),
        ).alias("origin"),
        sf.timestamp_seconds(
            sf.lit(1_356_998_400 + (number - 1) * 28 * 86_400) + minutes * 60
        ).alias("departure"),
        (sf.col("id") * 7919 % 240 - 20).cast("int").alias("delay"),
    )


def main(session: SparkSession, url: str) -> None:
    # The first write creates the table; format("blockstore") needs no registration.
    january = month(session, 1).write.format("blockstore").mode("append")
    january.options(time_column="departure", sort_by="origin,departure", app="load", batch=1).save(
        url
    )

    # The same with a function: faster, and it returns what it wrote.
    february = bs_spark.append(month(session, 2), url, job=bs.Job(app="load", batch=2))
    print(f"block {february.ulid} is version {february.version}: {february.rows:,} rows")

    # A job that runs again finds its batch committed and writes nothing.
    again = bs_spark.append(month(session, 2), url, job=bs.Job(app="load", batch=2))
    print(f"run again: still block {again.ulid}, version {again.version}")

    flights = bs_spark.read(session, url)
    late = flights.where("delay > 60").groupBy("origin").count().orderBy("origin")
    print({row["origin"]: row["count"] for row in late.collect()})

    before = session.read.format("blockstore").option("version", february.version - 1).load(url)
    print(f"rows: {before.count():,} before february, {flights.count():,} after")


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
            main(spark, os.path.join(folder, "flights"))
    spark.stop()
