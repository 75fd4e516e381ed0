"""A stream into a table, and a stream of that table into another. Run: python
examples/spark_streaming.py [FOLDER]

Each micro-batch is one block and counts once, however often the query is stopped and started. The
second stream follows the first table's versions while a compactor merges its blocks, and sees every
row once all the same.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import blockstore as bs
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings


def arrive(session: SparkSession, folder: str, number: int) -> None:
    """What a device sends: a file of 1,000 readings."""
    rows = session.range(1000 * number, 1000 * (number + 1)).select(
        "id", (sf.col("id") % 97).alias("value")
    )
    rows.coalesce(1).write.mode("append").json(f"{folder}/incoming")


def run(writer, checkpoint: str, target: str) -> None:
    """Run a query until everything that is there now has been written."""
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(target)
    query.awaitTermination()


def main(session: SparkSession, folder: str) -> None:
    readings, alarms = f"{folder}/readings", f"{folder}/alarms"
    arrive(session, folder, 0)
    incoming = session.readStream.schema("id long, value long").json(f"{folder}/incoming")
    sink = incoming.writeStream.format("blockstore").option("sort_by", "id")
    run(sink, f"{folder}/to-readings", readings)

    # Stopped, and started again with the same checkpoint: only what is new is written.
    arrive(session, folder, 1)
    run(sink, f"{folder}/to-readings", readings)
    table = bs.open(readings)
    print(f"{table.snapshot().count():,} readings in {len(table.snapshot().blocks)} blocks")

    # The compactor merges them; the stream of the table has the rows as they were written.
    compact_once(table, Settings(tier_blocks=2, work_dir=Path(folder)))
    print(f"merged into {len(bs.open(readings).snapshot().blocks)}")
    source = (
        session.readStream.format("blockstore")
        .option("start", "1")
        .option("where", "value = 96")
        .load(readings)
    )
    run(source.writeStream.format("blockstore"), f"{folder}/to-alarms", alarms)
    print(f"{bs.open(alarms).snapshot().count()} alarms")


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    if len(sys.argv) > 1:
        main(spark, sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(spark, scratch)
    spark.stop()
