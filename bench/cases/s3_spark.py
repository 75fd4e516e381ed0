"""Spark reads a table on an S3 server with latency, against pyarrow on the bare files.

Spark's JVM has no S3 connector here, so pyarrow's reader in Spark's tasks takes the place of
``spark.read.parquet``: a task for each of the files that ours are copied to. The same by a dataset
in this process, without Spark, is a figure of its own. All take turns in one session; each reads
every row of every column again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.case import Case, Figures, Metric, Prepare, Task
from bench.cases.at_latency import MAIN, counts, every_scale, proxied
from bench.cases.s3_query import prepare
from bench.cases.spark_frame import medians, session
from bench.latency.session import Measured

__all__ = ["S3_SPARK"]

WAYS = {"read": "", "source": " by the data source"}


def measure(task: Task) -> Figures:
    """Seconds of a full scan by each way at the main delay, and the ratios to pyarrow's."""
    from bench.peers.s3 import place
    from blockstore import spark as bs_spark

    expected = task.sizes["blocks"] * task.sizes["rows"]
    with proxied() as proxy:
        proxy.set(delay_ms=MAIN)
        # Before the session is made: its tasks have the environment of this process.
        os.environ["AWS_ENDPOINT_URL"] = proxy.endpoint
        spark = session()
        url, folder = place.url(task.directory), place.bare_url(task.directory)
        frames: dict[str, Callable[[], Any]] = {
            "pyarrow": lambda: _by_pyarrow(spark, folder, task.sizes["blocks"]),
            "read": lambda: bs_spark.read(spark, url),
            "source": lambda: spark.read.format("blockstore").load(url),
        }
        ways: dict[str, Callable[[Path], object]] = {
            name: partial(_drain, frame) for name, frame in frames.items()
        }
        ways["dataset"] = lambda _: _dataset(folder)
        spent = medians(ways, task.directory, task.sizes["times"])
        proxy.reset()
        _drain(frames["read"])
        record = proxy.take()
        for name in ("pyarrow", "read", "source"):
            if (found := frames[name]().count()) != expected:
                raise ValueError(f"{found} rows by {name}, expected {expected}")
    figures = {f"{way}_ratio": spent["pyarrow"] / spent[way] for way in WAYS}
    figures["dataset_ratio"] = spent["dataset"] / spent["read"]
    figures |= {f"{name}_s": seconds for name, seconds in spent.items()}
    counted = counts([Measured(seconds=[], cpu_s=0.0, record=record)])
    return figures | {name: counted[name] for name in ("requests", "down_mib", "dollars")}


def _drain(frame: Callable[[], Any], _: Path | None = None) -> None:
    frame().write.format("noop").mode("overwrite").save()


def _by_pyarrow(spark: Any, folder: str, files: int) -> Any:
    """The files' rows, each file by pyarrow in a task of its own."""
    schema = spark.createDataFrame(_file(folder, 0).schema_arrow.empty_table()).schema
    numbers = spark.range(0, files, 1, files)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from _file(folder, number).iter_batches(batch_size=50_000)

    return numbers.mapInArrow(read, schema)


def _file(folder: str, number: int) -> Any:
    import pyarrow.parquet as pq

    path = f"{folder.removeprefix('s3://')}/part-{number:05d}.parquet"
    return pq.ParquetFile(path, filesystem=_files(), pre_buffer=True)


def _dataset(folder: str) -> None:
    import pyarrow.dataset as ds

    for _ in ds.dataset(folder.removeprefix("s3://"), filesystem=_files()).to_batches():
        pass


def _files() -> Any:
    from pyarrow.fs import S3FileSystem

    return S3FileSystem(
        access_key=os.environ["AWS_ACCESS_KEY_ID"],
        secret_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        region=os.environ["AWS_REGION"],
        endpoint_override=os.environ["AWS_ENDPOINT_URL"],
    )


def _metric(name: str, unit: str, title: str, digits: int) -> Metric:
    return Metric(name=name, unit=unit, title=title, higher_is_better=unit == "x", digits=digits)


S3_SPARK = Case(
    name="s3-spark",
    sentence="read 10 M rows of 5 columns in 20 files by Spark, local[2], on an S3 server with "
    "latency, against pyarrow in Spark's tasks on the bare files",
    peers=("ours-s3",),
    metrics=(
        *(
            _metric(f"{way}_ratio", "x", f"full scan{by} against pyarrow in tasks", 2)
            for way, by in WAYS.items()
        ),
        _metric("dataset_ratio", "x", "full scan against a dataset without Spark", 2),
        _metric("read_s", "s", "full scan", 2),
        _metric("source_s", "s", "by the data source", 2),
        _metric("pyarrow_s", "s", "pyarrow in tasks", 2),
        _metric("dataset_s", "s", "a dataset without Spark", 2),
        _metric("requests", "", "requests", 0),
        _metric("down_mib", "MiB", "received", 1),
        _metric("dollars", "$", "per million", 2),
    ),
    sizes=every_scale(
        {"blocks": 20, "rows": 500_000, "times": 5},
        {"blocks": 20, "rows": 50_000, "times": 3},
        {"blocks": 2, "rows": 1_000, "times": 1},
    ),
    rounds=2,
    prepare=Prepare(name="s3-events", run=prepare),
    measure=measure,
    reference="ours-s3",
    store=True,
)
