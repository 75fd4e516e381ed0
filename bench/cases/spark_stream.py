"""A stream of Spark that upserts by key, against the same stream that appends: as many rows in as
many micro-batches, in one session."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Scale, Task
from bench.cases.spark_frame import session, url_of

__all__ = ["SPARK_STREAM"]


def prepare(task: Task) -> None:
    """A file for each micro-batch, of scattered keys: each key comes twice on average."""
    news, warm = task.directory / "news", task.directory / "warm"
    news.mkdir()
    warm.mkdir()
    count = task.sizes["rows"]
    keys = task.sizes["batches"] * count // 2
    draw = np.random.default_rng(task.seed)
    for number in range(task.sizes["batches"]):
        ids = np.sort(draw.choice(keys, count, replace=False))
        file = news / f"{number:04d}.parquet"
        pq.write_table(inputs.of_ids(ids, draw), file)
        if number < task.sizes["warm"]:
            (warm / file.name).hardlink_to(file)


def measure(task: Task) -> Figures:
    """One stream after the other, in one session, after a few micro-batches of each that are not
    timed."""
    spark = session()
    seconds = {}
    for source in ("warm", "news"):
        for mode in ("append", "upsert"):
            seconds[mode] = _streamed(spark, task.directory / source, task.directory / mode, mode)
    total = task.sizes["batches"] * task.sizes["rows"]
    return {
        "ratio": seconds["append"] / seconds["upsert"],
        "rows_per_s": total / seconds["upsert"] / 1e3,
        "append_rows_per_s": total / seconds["append"] / 1e3,
    }


def _streamed(spark: Any, source: Path, place: Path, mode: str) -> float:
    """The seconds of a stream of the files of ``source`` into a new table. Raises ValueError unless
    each micro-batch is in the table once, with the rows that it should have."""
    import blockstore as bs

    url, files = url_of(place, "table", durable=False), sorted(source.glob("*.parquet"))
    upserts = mode == "upsert"
    bs.create(url, schema=inputs.SCHEMA, key=["id"] if upserts else (), sort_by=["id"])
    news = spark.readStream.schema(spark.read.parquet(str(files[0])).schema)
    writer = news.option("maxFilesPerTrigger", 1).parquet(str(source)).writeStream
    writer = writer.format("blockstore").option("write_mode", "upsert" if upserts else "append")
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    started = time.perf_counter()
    writer.trigger(availableNow=True).start(url).awaitTermination()
    seconds = time.perf_counter() - started
    table, ids = bs.open(url), [pq.read_table(file, columns=["id"])["id"] for file in files]
    every = [one for some in ids for one in some.to_pylist()]
    expected = len(set(every)) if upserts else len(every)
    written = sorted(one.job.batch for one in table.history() if one.job is not None)
    found = table.snapshot().count()
    if written != list(range(len(files))) or found != expected:
        raise ValueError(
            f"the table has {len(written)} micro-batches and {found} rows, expected each of "
            f"{len(files)} once and {expected} rows"
        )
    shutil.rmtree(place)
    return seconds


SPARK_STREAM = Case(
    name="spark_stream",
    sentence="upserts by key by a stream of Spark, local[2], of 1 M rows in 100 micro-batches, "
    "against appends of the same stream, in the same session",
    peers=("ours",),
    metrics=(
        Metric(
            name="ratio", unit="x", title="upserts against appends", higher_is_better=True, digits=2
        ),
        Metric(name="rows_per_s", unit="k rows/s", title="upserts", higher_is_better=True),
        Metric(name="append_rows_per_s", unit="k rows/s", title="appends", higher_is_better=True),
    ),
    sizes={
        Scale.FULL: {"batches": 100, "rows": 10_000, "warm": 3},
        Scale.QUICK: {"batches": 20, "rows": 10_000, "warm": 3},
        Scale.TINY: {"batches": 2, "rows": 200, "warm": 1},
    },
    rounds=1,
    prepare=Prepare(name="spark_stream", run=prepare),
    measure=measure,
    reference="ours",
)
